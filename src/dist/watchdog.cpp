#include "dist/watchdog.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <utility>

#include "dist/error_file.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/host.hpp"

namespace snake_ddp::dist {
namespace {

constexpr unsigned kStacksLimit_s = 10;  // for printing them
constexpr std::chrono::milliseconds kNap{100},
    kStopped{1000};  // a longer nap: the process was stopped meanwhile

}  // namespace

Watchdog::Watchdog(int rank, Limits limits, std::function<bool()> stopping)
    : rank_(rank), limits_(limits), stopping_(std::move(stopping)) {
  prepare_stacks();
  tick("the start");
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard guard(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watchdog::tick(const char* where, std::chrono::milliseconds longer) {
  const auto now = Clock::now();
  if (where_.exchange(where, std::memory_order_relaxed) != where)
    where_since_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  ticks_.fetch_add(1, std::memory_order_relaxed);
  last_tick_.store((now + longer).time_since_epoch().count(), std::memory_order_release);
}

Watchdog::Activity Watchdog::activity() const {
  const Clock::duration began(where_since_.load(std::memory_order_relaxed));
  return {where_.load(std::memory_order_relaxed), Clock::now() - Clock::time_point(began)};
}

void Watchdog::watch() {
  std::optional<Clock::time_point> stop_seen;
  std::int64_t last_seen = 0;
  Clock::duration stopped{};  // since that tick
  auto last = Clock::now();
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kNap, [this] { return done_; })) {
    const auto now = Clock::now();
    if (const std::int64_t newest = last_tick_.load(std::memory_order_acquire); newest != last_seen)
      last_seen = newest, stopped = {};
    if (now - last > kStopped) {
      stopped += now - last;
      if (stop_seen) *stop_seen += now - last;
    }
    last = now;
    const auto idle = now - Clock::time_point(Clock::duration(last_seen)) - stopped;
    if (idle > limits_.step) end_process("no progress", idle);
    if (!stop_seen && stopping_ && stopping_()) stop_seen = now;
    if (stop_seen && now - *stop_seen > limits_.stop)
      end_process("still busy after a stop signal", now - *stop_seen);
  }
}

void Watchdog::end_process(const char* reason, Clock::duration waited) const {
  const std::string message = fmt::format(
      "rank {} on {}: {} for {:.1f} s after {} (tick {}). Other ranks' messages show whether it was waiting "
      "for "
      "them",
      rank_, core::host_name(), reason, std::chrono::duration<double>(waited).count(), where_.load(),
      ticks_.load());
  write_error_file(message, core::kExitDist);
  // Looking up function names allocates: if the allocator is what hangs, the process ends without them.
  std::signal(SIGALRM, [](int) { ::_exit(core::kExitDist); });
  ::alarm(kStacksLimit_s);
  core::tell_error(message);
  print_stacks();
  ::_exit(core::kExitDist);
}

}  // namespace snake_ddp::dist
