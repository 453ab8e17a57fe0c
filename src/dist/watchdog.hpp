// Ends a rank whose main thread makes no progress. Nothing else does: collectives replayed from a CUDA graph have no
// timeout, and the stop flag is never checked while the main thread is blocked in a dead collective. Time in which the whole
// process was stopped (SIGSTOP, Ctrl-Z) does not count.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace snake_ddp::dist {

class Watchdog {
 public:
  struct Limits {
    // Between two ticks. Longer than the collectives' timeout, because their errors are more specific.
    std::chrono::milliseconds step{600'000};
    // From a stop request to the end; torchrun kills after 30 s.
    std::chrono::milliseconds stop{25'000};
  };

  /// Starts the watch. `stopping` reports whether a stop was requested (empty: never) and is called from another
  /// thread.
  /// Owner       the watch's thread ends in the destructor.
  Watchdog(int rank, Limits limits, std::function<bool()> stopping = {});
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Reports progress, and what this rank does from now on. If no other tick follows within the limit plus `longer`, the process
  /// exits with kExitDist, with `where` and the number of ticks in its message and error file, and without destructors: they
  /// would wait for the dead collective.
  /// Threads     any.
  /// Cost        a few stores.
  void tick(const char* where,
            std::chrono::milliseconds longer = {});  // `where` is a literal: it outlives the watch

  /// What this rank does, and since when.
  struct Activity {
    const char* what;
    std::chrono::steady_clock::duration since;
  };
  /// Threads     any.
  [[nodiscard]] Activity activity() const;

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  void end_process(const char* reason, Clock::duration waited) const;

  const int rank_;
  const Limits limits_;
  const std::function<bool()> stopping_;
  std::atomic<const char*> where_{""};
  std::atomic<Clock::rep> last_tick_{0}, where_since_{0};
  std::atomic<long> ticks_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

/// Installs a handler for an unused signal (SIGRTMIN + 7) and loads what stack walking needs. Call it once, early.
void prepare_stacks();

/// Writes every thread's name and stack to standard error, the calling one's included, with function names where
/// libraries and the program export them.
/// Threads     any, one at a time.
/// Waits       one second for all threads; those blocked in the kernel do not respond.
void print_stacks();

}  // namespace snake_ddp::dist
