// Waits with a deadline for library calls that have none.
#pragma once

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "snake_ddp/base/deadline.hpp"

namespace snake_ddp::dist {

/// Runs `work` on a thread of its own and waits for it.
/// Owner    `work` must own all it touches: after a false return its thread is left behind inside the call.
/// Returns  false if `deadline` passed first.
/// Throws   what `work` throws.
template <typename Work>
bool finishes_by(base::Deadline deadline, Work work) {
  auto task = std::make_shared<std::packaged_task<void()>>(std::move(work));
  std::future<void> result = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  if (result.wait_for(deadline.left()) != std::future_status::ready) return false;
  result.get();
  return true;
}

}  // namespace snake_ddp::dist
