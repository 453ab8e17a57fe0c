// Waits with a deadline for library calls that have none.
#pragma once

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "snake_ddp/base/deadline.hpp"

namespace snake_ddp::dist {

/// Runs `work` on a thread of its own and waits for it.
/// Owner    `work` must own all it touches: after a false return its thread is still inside the call.
/// Returns  false if `deadline` passed first, or `give_up`, called ten times a second, returned true.
/// Throws   what `work` throws.
template <typename Work, typename GiveUp>
bool finishes_by(base::Deadline deadline, Work work, GiveUp give_up) {
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
bool finishes_by(base::Deadline deadline, Work work) {
  return finishes_by(deadline, std::move(work), [] { return false; });
}

}  // namespace snake_ddp::dist
