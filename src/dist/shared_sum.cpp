#include "shared_sum.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "process_state.hpp"
#include "snake_ddp/base/host.hpp"

namespace snake_ddp::dist {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSlotBytes = 1024 * 1024;  // longer tensors go in pieces
constexpr std::size_t kLine = 64;

[[noreturn]] void fail(const std::string& doing) {
  throw std::runtime_error(doing + ": " + std::strerror(errno));
}

struct alignas(kLine) Counter {
  std::atomic<std::uint64_t> value;  // the last round whose numbers this rank has put into its slot
  // By slot: how many numbers its call had left to sum in that round.
  std::atomic<std::uint64_t> left[2];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "works between processes");

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// The counters of all ranks, then two slots for each: while some still read those of one round, others may write those
// of the next. Nobody can be two rounds ahead, since each round waits for all.
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
  made->descriptor_ = memfd_create(label.c_str(), MFD_CLOEXEC);
  if (made->descriptor_ < 0) fail("memfd_create");
  // Room is taken now: touching a page that the system cannot give would end the process later.
  const int error = posix_fallocate(made->descriptor_, 0, static_cast<off_t>(Layout::bytes(size)));
  if (error != 0) {
    errno = error;
    fail("room for sums");
  }
  made->map();
  for (int r = 0; r < size; ++r) new (made->layout_->counters() + r) Counter{};
  made->address_ = fmt::format("/proc/{}/fd/{} {}", getpid(), made->descriptor_, label);
  return made;
}

std::unique_ptr<SharedSum> SharedSum::open(const std::string& address, int rank, int size) {
  const std::size_t blank = address.find(' ');
  const std::string path = address.substr(0, blank);
  // Another process may have this number where the maker is not to be seen, and opening what is its own might do anything.
  std::array<char, 128> target{};
  const ssize_t length = readlink(path.c_str(), target.data(), target.size());
  if (length < 0) fail("readlink " + path);
  if (std::string_view(target.data(), static_cast<std::size_t>(length)) !=
      fmt::format("/memfd:{} (deleted)", address.substr(blank + 1))) {
    throw std::runtime_error(path + " is not the segment");
  }
  std::unique_ptr<SharedSum> made(new SharedSum(rank, size));
  made->descriptor_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (made->descriptor_ < 0) fail("open " + path);
  made->map();
  return made;
}

void SharedSum::map() {
  void* memory = mmap(nullptr, Layout::bytes(size_), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) fail("mmap");
  layout_ = static_cast<Layout*>(memory);
}

SharedSum::~SharedSum() {
  if (layout_ != nullptr) munmap(layout_, Layout::bytes(size_));
  if (descriptor_ >= 0) close(descriptor_);
}

std::byte* SharedSum::slot(int rank, std::uint64_t round) const {
  auto* slots = reinterpret_cast<std::byte*>(layout_->counters() + size_);
  return slots + (static_cast<std::size_t>(rank) * 2 + round % 2) * kSlotBytes;
}

void SharedSum::await_others(std::uint64_t round, const std::vector<long>& pids,
                             base::Deadline deadline) const {
  // Ranks with a core each wait some hundred microseconds on it: whoever gets a core that was given away keeps it for
  // milliseconds. With fewer cores the late rank may be the one that waits for this core.
  static const int cores = base::usable_cores();
  const int spins = size_ <= cores ? 1 << 14 : 0;
  Clock::time_point next_look = Clock::now() + std::chrono::milliseconds(20);
  for (int rank = 0; rank < size_; ++rank) {
    const std::atomic<std::uint64_t>& there = layout_->counters()[rank].value;
    for (int spin = 0; there.load(std::memory_order_acquire) < round; ++spin) {
      if (spin < spins) {
        pause();
        continue;
      }
      sched_yield();
      const auto now = Clock::now();
      if (now < next_look) continue;
      next_look = now + std::chrono::milliseconds(20);
      for (std::size_t r = 0; r < pids.size(); ++r) {
        if (process_has_ended(pids[r]) &&
            layout_->counters()[r].value.load(std::memory_order_acquire) < round) {
          throw std::runtime_error(
              fmt::format("rank {} (pid {}) ended before sending its values", r, pids[r]));
        }
      }
      if (deadline.passed()) throw std::runtime_error(fmt::format("rank {} sent no values", rank));
      // Not a moment of imbalance any more: leave the processor to whoever is late.
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
}

template <class Number>
void SharedSum::show(const Number* values, std::size_t piece, std::size_t left) {
  ++round_;
  std::memcpy(slot(rank_, round_), values, piece * sizeof(Number));
  layout_->counters()[rank_].left[round_ % 2].store(left, std::memory_order_relaxed);
  layout_->counters()[rank_].value.store(round_, std::memory_order_release);
}

template <class Number>
void SharedSum::post(const Number* values, std::size_t count) {
  if (count * sizeof(Number) > kSlotBytes) return;
  show(values, count, count);
  posted_ = true;
}

template <class Number>
void SharedSum::sum(Number* values, std::size_t count, Number divisor, const std::vector<long>& pids,
                    base::Deadline deadline) {
  constexpr std::size_t kPiece = kSlotBytes / sizeof(Number);
  const auto numbers = [&](int rank) { return reinterpret_cast<const Number*>(slot(rank, round_)); };
  for (std::size_t first = 0; first < count; first += kPiece) {
    const std::size_t piece = std::min(kPiece, count - first);
    if (!posted_) show(values + first, piece, count - first);
    posted_ = false;
    await_others(round_, pids, deadline);
    for (int rank = 0; rank < size_; ++rank) {
      const std::uint64_t left = layout_->counters()[rank].left[round_ % 2].load(std::memory_order_relaxed);
      if (left != count - first) {
        throw std::runtime_error(
            fmt::format("rank {} sums {} values, but this rank sums {}", rank, left + first, count));
      }
    }
    const Number* zeroth = numbers(0);
    Number* to = values + first;
    if (size_ == 2) {
      const Number* other = numbers(1);
      for (std::size_t i = 0; i < piece; ++i) to[i] = (zeroth[i] + other[i]) / divisor;
      continue;
    }
    std::memcpy(to, zeroth, piece * sizeof(Number));
    for (int rank = 1; rank < size_; ++rank) {
      const Number* other = numbers(rank);
      for (std::size_t i = 0; i < piece; ++i) to[i] += other[i];
    }
    for (std::size_t i = 0; i < piece; ++i) to[i] /= divisor;
  }
}

template void SharedSum::post(const float*, std::size_t);
template void SharedSum::sum(float*, std::size_t, float, const std::vector<long>&, base::Deadline);
template void SharedSum::sum(std::int64_t*, std::size_t, std::int64_t, const std::vector<long>&,
                             base::Deadline);

}  // namespace snake_ddp::dist
