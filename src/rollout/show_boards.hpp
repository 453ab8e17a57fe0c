// Observations of the boards that replay stores.
#pragma once

#include <ATen/core/Tensor.h>

#include "snake_ddp/play/sight.hpp"

namespace snake_ddp::rollout {

/// Writes team A's observation of the boards at `indices`.
/// Shapes  storage [capacity, 64] float32, the bytes of boards; indices [B] int64; out [B, 3, features + 1]; on one device.
void show_boards(const play::Sight& sight, const at::Tensor& storage, const at::Tensor& indices,
                 at::Tensor& out);

}  // namespace snake_ddp::rollout
