// What a DistContext holds, and what its files share: context.cpp has the collectives, joining.cpp how ranks join and leave.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "connect.hpp"
#include "dist/context.hpp"
#include "rendezvous.hpp"
#include "shared_sum.hpp"
#include "snake_ddp/core/deadline.hpp"
#include "snake_ddp/core/host.hpp"

namespace snake_ddp::dist {

using core::Deadline;
using core::DistError;
using core::UsageError;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

inline constexpr milliseconds kNap{10};
inline constexpr milliseconds kMoment{1'500};  // a guard's extra time, so that the guarded wait reports first
inline constexpr milliseconds kFarewell{10'000};   // for the others to leave after this rank has
inline constexpr milliseconds kStopsAfter{5'000};  // ranks that meet in this time can still stop together
inline constexpr milliseconds kStopLook{250};      // between two checks whether another rank stops
inline constexpr milliseconds kLongest{24 * 3'600'000};  // the libraries count nanoseconds in places

// Keys in the group's own corner of the store.
inline const std::string kLost = "lost/";  // + rank: the call that failed
inline const std::string kLeft = "left/";  // + rank: "in order" or "after an error"
inline const std::string kGone = "gone/";  // + rank: it needs the store no more
inline const std::string kStop = "stop";   // a rank was asked to stop
inline const std::string kMemory =
    "memory/";  // + the first rank of a machine: its segment's address, or nothing

// Runs `work` on a thread of its own and waits for it.
// Owner    `work` must own all it touches: after a false return its thread is still inside the call.
// Returns  false if `deadline` passed first, or `give_up`, called ten times a second, returned true.
// Throws   what `work` throws.
template <typename Work, typename GiveUp>
bool finishes_by(core::Deadline deadline, Work work, GiveUp give_up) {
  constexpr std::chrono::milliseconds kLook{100};
  auto task = std::make_shared<std::packaged_task<void()>>(std::move(work));
  std::future<void> result = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  while (result.wait_for(std::min(kLook, deadline.left())) != std::future_status::ready) {
    if (deadline.passed() || give_up()) return false;
  }
  result.get();
  return true;
}

template <typename Work>
bool finishes_by(core::Deadline deadline, Work work) {
  return finishes_by(deadline, std::move(work), [] { return false; });
}

inline double seconds(Clock::duration span) { return std::chrono::duration<double>(span).count(); }

inline milliseconds usable(milliseconds span) { return std::clamp(span, milliseconds(1), kLongest); }

// A library's text on one line, without its stack trace.
std::string brief(const std::exception& error);

// The connections for sums of tensors in main memory.
struct Connections {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo{};    // all ranks
  std::unique_ptr<SharedSum> shared{};                  // the ranks of this machine
  std::vector<Peer> peers{};                            // the same ranks
  c10::intrusive_ptr<c10d::ProcessGroupGloo> across{};  // the first rank of each machine; null on the others
  std::vector<c10::intrusive_ptr<c10d::Work>> sent{};  // last, between two machines; keeps `across` connected
  bool many_machines = false;

  [[nodiscard]] bool takes(const at::Tensor& tensor) const {
    return shared && tensor.is_cpu() && tensor.is_contiguous() &&
           (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kLong);
  }
  template <class Number>
  void add_machines(Number* values, at::Tensor& tensor, milliseconds limit);
  void sum_in_shared_memory(at::Tensor& tensor, int divisor, milliseconds limit);
};

struct DistContext::Group {
  World world;
  Options options;
  Placement placement;
  int exceptions_at_start = std::uncaught_exceptions();
  Meeting meeting{};
  std::vector<std::string> hosts{core::host_name()};
  Connections lines{};
#ifdef SD_HAVE_CUDA
  c10::intrusive_ptr<c10d::Backend> nccl{};
#endif
  long calls = 0;
  std::string failure{};    // why the group is unusable
  std::vector<int> lost{};  // the ranks that were missing then
  bool store_lost = false;  // it did not answer then
  bool shares_gpus = false;

  [[nodiscard]] bool alone() const { return placement.backend == "none"; }
  [[nodiscard]] std::string self() const {
    return fmt::format("rank {} on {}", world.rank, core::host_name());
  }

  void join();
  template <typename Work>
  bool joins_by(Deadline deadline, Work work);
  c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_members(const Meeting& of, const std::string& name,
                                                             int place, Deadline deadline);
  void connect(Deadline deadline);
  void share_memory(Deadline deadline);
  void leave() noexcept;
  void close_connections();

  template <typename Body>
  void guarded(const std::string& what, Deadline deadline, Body body);
  void sum_in_shared_memory(at::Tensor& tensor, int divisor, Deadline deadline);
  template <typename Start>
  void run(const std::string& what, Deadline deadline, Start start);
  template <typename Start>
  void run_on(at::Tensor& tensor, const std::string& what, Deadline deadline, Start start);
  [[noreturn]] void fail(const std::string& what, Clock::time_point begun, milliseconds limit,
                         const std::string& library_text);

  std::vector<std::string> gather(const std::string& record, Deadline deadline);
  std::string broadcast_text(const std::string& text, Deadline deadline);
};

}  // namespace snake_ddp::dist
