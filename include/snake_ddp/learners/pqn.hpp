// The returns of Pqn: see src/learners/pqn.cpp.
#pragma once

#include <ATen/core/Tensor.h>

namespace snake_ddp::learners {

/// Returns of transitions in the order in which they were played, several games interleaved:
///   G_i = r_i + discount_i ((1 - lambda) V_i + lambda G_j)    where j, the game's next transition, is among them,
///   G_i = r_i + discount_i V_i                                for the last one of a game, or of all.
/// Shapes  reward, discount, value [N, 3], the last that of the state after; back [N, 1]: how many rows before it the
///         game's previous transition is, 0 at its first. Returns [N, 3].
at::Tensor lambda_returns(const at::Tensor& reward, const at::Tensor& discount, const at::Tensor& value,
                          const at::Tensor& back, double lambda);

}  // namespace snake_ddp::learners
