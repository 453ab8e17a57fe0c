// Waiting for another thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace snake_ddp::base {

/// Waits until `ready()`, which is called with the lock held.
/// With GCC 12 the wait without a limit of std::condition_variable needs a C++ library of that age at run time; this one does not.
template <class Ready>
void wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Ready ready) {
  while (!changed.wait_for(lock, std::chrono::hours(1), ready)) {
  }
}

}  // namespace snake_ddp::base
