// Ends a rank whose main thread makes no progress. Nothing else does: collectives replayed from a CUDA graph
// have no timeout, and a stop signal's flag is never looked at while the main thread sits in a dead
// collective.
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
    // Between two ticks. More than the collectives' timeout: their errors say more.
    std::chrono::milliseconds step{600'000};
    // From a stop request to the end; torchrun kills after 30 s.
    std::chrono::milliseconds stop{25'000};
  };

  /// Starts the watch. `stopping` tells whether a stop was requested (empty: never) and is asked from
  /// another thread.
  /// Owner       the watch's thread ends in the destructor.
  Watchdog(int rank, Limits limits, std::function<bool()> stopping = {});
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Progress. If no other tick comes within the limit, the process ends with kExitDist, `where` and the
  /// number of ticks in its message and error file, and without destructors: they would wait for the dead
  /// collective.
  /// Threads     any.
  /// Cost        two stores.
  void tick(const char* where);  // must outlive the watch: a literal

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  void end_process(const char* reason, Clock::duration waited) const;

  const int rank_;
  const Limits limits_;
  const std::function<bool()> stopping_;
  std::atomic<const char*> where_{""};
  std::atomic<Clock::rep> last_tick_{0};
  std::atomic<long> ticks_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace snake_ddp::dist
