// Numbers of an update, for reports.
#pragma once

#include <ATen/core/Tensor.h>

namespace snake_ddp::learners {

/// Numbers of the last update, for reports.
struct UpdateStats {
  double actor_loss = 0;
  double critic_loss = 0;
  double actor_grad_norm = 0;  // before clipping
  double critic_grad_norm = 0;
  double q_mean = 0;
};

/// From the result of Learner::measured, [5] float32 in main memory.
UpdateStats stats_from(const at::Tensor& measured);

}  // namespace snake_ddp::learners
