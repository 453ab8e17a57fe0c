#include "shared_sum.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <new>
#include <random>
#include <stdexcept>
#include <string_view>

#include "snake_ddp/core/aligned.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::dist {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSlotBytes = 1024 * 1024;  // longer tensors are summed in pieces

// A rank first spins: waking up takes longer than most waits. If another rank is later than that, other processes may
// occupy its core, and it may need the one that this rank frees by sleeping. How long to spin follows from the waits
// before.
constexpr std::chrono::nanoseconds kShortestSpin = std::chrono::microseconds(10);
constexpr std::chrono::nanoseconds kLongestSpin = std::chrono::microseconds(400);
// How often a sleeping rank checks that the others are alive.
constexpr std::chrono::milliseconds kLook(20);

[[noreturn]] void fail(const std::string& doing) {
  throw std::runtime_error(doing + ": " + std::strerror(errno));
}

struct alignas(core::kCacheLine) Counter {
  std::atomic<std::uint64_t> value;  // the last round whose numbers this process has put into its slot
  // By slot: how many numbers its call still had to sum in that round.
  std::atomic<std::uint64_t> left[2];
  std::atomic<std::uint32_t> bell;  // the lower half of `value`: the futex that others sleep on
  // The number of sleeping ranks. A killed one stays counted, which only costs wake-ups.
  std::atomic<std::uint32_t> sleepers;
  std::atomic<std::uint32_t> gave_up;  // 1: this process sends no more numbers
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "works between processes");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4,
              "a futex");

// Between processes: std::atomic::wait() works only within one.
void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds limit) {
  const timespec time{limit.count() / 1'000'000'000, limit.count() % 1'000'000'000};
  if (syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0) != 0 && errno != EAGAIN &&
      errno != EINTR && errno != ETIMEDOUT) {
    fail("futex wait");
  }
}

void wake_all(std::atomic<std::uint32_t>& word) {
  if (syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0) < 0) fail("futex wake");
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// The counters of all ranks, then two slots for each: while some still read the slots of one round, others may write
// those of the next. No rank can be two rounds ahead, since each round waits for all.
struct SharedSum::Layout {
  static std::size_t bytes(int size) {
    return static_cast<std::size_t>(size) * (sizeof(Counter) + 2 * kSlotBytes);
  }
  Counter* counters() { return reinterpret_cast<Counter*>(this); }
};

std::unique_ptr<SharedSum> SharedSum::create(int size) {
  std::random_device device;
  const std::string label = fmt::format("snake_ddp.{:08x}{:08x}", device(), device());
  std::unique_ptr<SharedSum> made(new SharedSum(0, size));
  made->descriptor_ = core::Descriptor(memfd_create(label.c_str(), MFD_CLOEXEC));
  if (!made->descriptor_.open()) fail("memfd_create");
  // Memory is reserved now: touching a page that the system cannot provide would end the process later.
  const int error = posix_fallocate(made->descriptor_.get(), 0, static_cast<off_t>(Layout::bytes(size)));
  if (error != 0) {
    errno = error;
    fail("room for sums");
  }
  made->map();
  for (int r = 0; r < size; ++r) new (made->layout_->counters() + r) Counter{};
  made->address_ = fmt::format("/proc/{}/fd/{} {}", getpid(), made->descriptor_.get(), label);
  return made;
}

std::unique_ptr<SharedSum> SharedSum::open(const std::string& address, int place, int size) {
  const std::size_t blank = address.find(' ');
  const std::string path = address.substr(0, blank);
  // In another PID namespace this number may be another process, and opening one of its files might have side
  // effects.
  std::array<char, 128> target{};
  const ssize_t length = readlink(path.c_str(), target.data(), target.size());
  if (length < 0) fail("readlink " + path);
  if (std::string_view(target.data(), static_cast<std::size_t>(length)) !=
      fmt::format("/memfd:{} (deleted)", address.substr(blank + 1))) {
    throw std::runtime_error(path + " is not the segment");
  }
  std::unique_ptr<SharedSum> made(new SharedSum(place, size));
  made->descriptor_ = core::Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!made->descriptor_.open()) fail("open " + path);
  made->map();
  return made;
}

void SharedSum::map() {
  void* memory =
      mmap(nullptr, Layout::bytes(size_), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), 0);
  if (memory == MAP_FAILED) fail("mmap");
  layout_ = static_cast<Layout*>(memory);
}

SharedSum::~SharedSum() {
  if (layout_ != nullptr) munmap(layout_, Layout::bytes(size_));
}

std::byte* SharedSum::slot(int place) const {
  auto* slots = reinterpret_cast<std::byte*>(layout_->counters() + size_);
  return slots + (static_cast<std::size_t>(place) * 2 + round_ % 2) * kSlotBytes;
}

void SharedSum::await(int place, const std::vector<Peer>& peers, core::Deadline deadline) {
  Counter& there = layout_->counters()[place];
  const auto come = [&] { return there.value.load(std::memory_order_acquire) >= round_; };
  if (come()) return;
  const auto begun = Clock::now();
  for (;;) {
    for (int i = 0; i < 64; ++i) {
      if (come()) {
        patience_ = std::min(kLongestSpin, patience_ + patience_ / 8);
        return;
      }
      pause();
    }
    if (Clock::now() - begun > patience_) break;
  }
  patience_ = std::max(kShortestSpin, patience_ / 2);
  // The sleeper counts itself before it reads the bell, and `show` rings before it reads the count: one of them sees
  // the other.
  there.sleepers.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const std::uint32_t seen = there.bell.load(std::memory_order_seq_cst);
    if (come()) break;
    sleep_on(there.bell, seen, std::min<std::chrono::nanoseconds>(kLook, deadline.left()));
    if (come()) break;
    for (std::size_t p = 0; p < peers.size(); ++p) {
      const Counter& other = layout_->counters()[p];
      const bool gave_up = other.gave_up.load(std::memory_order_acquire) != 0;
      if ((gave_up || process_has_ended(peers[p].pid)) &&
          other.value.load(std::memory_order_acquire) < round_) {
        throw std::runtime_error(fmt::format("rank {} (pid {}) {} before sending its values", peers[p].rank,
                                             peers[p].pid, gave_up ? "gave up" : "ended"));
      }
    }
    if (deadline.passed()) {
      throw std::runtime_error(
          fmt::format("rank {} sent no values", peers[static_cast<std::size_t>(place)].rank));
    }
  }
  there.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void SharedSum::give_up() noexcept {
  layout_->counters()[place_].gave_up.store(1, std::memory_order_release);
}

template <class Number>
void SharedSum::show(const Number* values, std::size_t piece, std::size_t left) {
  ++round_;
  std::memcpy(slot(place_), values, piece * sizeof(Number));
  Counter& own = layout_->counters()[place_];
  own.left[round_ % 2].store(left, std::memory_order_relaxed);
  own.value.store(round_, std::memory_order_release);
  own.bell.store(static_cast<std::uint32_t>(round_), std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst) != 0) wake_all(own.bell);
}

// Calls `combine(to, piece)` for each piece once all processes have shown theirs.
template <class Number, class Combine>
void SharedSum::in_pieces(Number* values, std::size_t count, const std::vector<Peer>& peers,
                          core::Deadline deadline, Combine combine) {
  constexpr std::size_t kPiece = kSlotBytes / sizeof(Number);
  for (std::size_t first = 0; first < count; first += kPiece) {
    const std::size_t piece = std::min(kPiece, count - first);
    show(values + first, piece, count - first);
    for (int place = 0; place < size_; ++place) await(place, peers, deadline);
    for (int place = 0; place < size_; ++place) {
      const std::uint64_t left = layout_->counters()[place].left[round_ % 2].load(std::memory_order_relaxed);
      if (left != count - first) {
        throw std::runtime_error(fmt::format("rank {} sums {}, but this rank sums {}",
                                             peers[static_cast<std::size_t>(place)].rank,
                                             core::counted(left + first, "value"), count));
      }
    }
    combine(values + first, piece);
  }
}

template <class Number>
void SharedSum::sum(Number* values, std::size_t count, Number divisor, const std::vector<Peer>& peers,
                    core::Deadline deadline) {
  const auto numbers = [&](int place) { return reinterpret_cast<const Number*>(slot(place)); };
  in_pieces(values, count, peers, deadline, [&](Number* to, std::size_t piece) {
    const Number* zeroth = numbers(0);
    if (size_ == 2) {
      const Number* other = numbers(1);
      for (std::size_t i = 0; i < piece; ++i) to[i] = (zeroth[i] + other[i]) / divisor;
      return;
    }
    std::memcpy(to, zeroth, piece * sizeof(Number));
    for (int place = 1; place < size_; ++place) {
      const Number* other = numbers(place);
      for (std::size_t i = 0; i < piece; ++i) to[i] += other[i];
    }
    for (std::size_t i = 0; i < piece; ++i) to[i] /= divisor;
  });
}

template <class Number>
void SharedSum::broadcast(Number* values, std::size_t count, const std::vector<Peer>& peers,
                          core::Deadline deadline) {
  in_pieces(values, count, peers, deadline,
            [&](Number* to, std::size_t piece) { std::memcpy(to, slot(0), piece * sizeof(Number)); });
}

template void SharedSum::sum(float*, std::size_t, float, const std::vector<Peer>&, core::Deadline);
template void SharedSum::sum(std::int64_t*, std::size_t, std::int64_t, const std::vector<Peer>&,
                             core::Deadline);
template void SharedSum::broadcast(float*, std::size_t, const std::vector<Peer>&, core::Deadline);
template void SharedSum::broadcast(std::int64_t*, std::size_t, const std::vector<Peer>&, core::Deadline);

namespace {

constexpr const char* kEnded = "has ended";

}  // namespace

std::string process_state(long pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return kEnded;
  const std::size_t name_end = line.rfind(')');  // the name may contain blanks and brackets
  const char state = name_end != std::string::npos && name_end + 2 < line.size() ? line[name_end + 2] : '?';
  if (state == 'Z' || state == 'X') return kEnded;
  if (state == 'T' || state == 't') return "is stopped by a signal";
  return "is alive but did not reach this call";
}

bool process_has_ended(long pid) { return process_state(pid) == kEnded; }

}  // namespace snake_ddp::dist
