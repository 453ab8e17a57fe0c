// How far a long command is, on a terminal.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "snake_ddp/core/console.hpp"

namespace snake_ddp::app {

/// A bar with the time left below the lines of stderr, if that is a terminal; otherwise nothing. It appears after a second,
/// is redrawn by a thread, and goes with the object.
/// Threads  one thread calls it.
class Progress {
 public:
  /// `what` begins the bar, such as "Playing".
  explicit Progress(std::string what, bool shown = true);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `share` of the work is done, 0 to 1.
  void show(double share);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(double share);

  const std::string what_;
  core::Console console_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable wake_;
  double share_ = 0;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace snake_ddp::app
