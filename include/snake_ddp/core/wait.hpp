// Waiting for another thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace snake_ddp::core {

/// Waits until `ready()`, which is called with the lock held.
/// Code compiled by GCC 12 for std::condition_variable::wait needs GCC 12's C++ library at run time; this does not.
template <class Ready>
void wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Ready ready) {
  while (!changed.wait_for(lock, std::chrono::hours(1), ready)) {
  }
}

}  // namespace snake_ddp::core
