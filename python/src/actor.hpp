// An actor that plays, without LibTorch: nets::DenseNet's forward pass for a softmax or tanh over four moves.
#pragma once

#include <cstdint>

#include "nets/dense_shape.hpp"
#include "snake_ddp/core/aligned.hpp"

namespace snake_ddp::python {

/// The first two layers are folded into one, as in nets/dense.hpp.
struct Actor {
  std::int64_t features = 0, hidden = 0;
  nets::Head head = nets::Head::kSoftmax;
  core::AlignedFloats map;                     // [features + 1, hidden], the last row is the bias
  core::AlignedFloats last_weight, last_bias;  // [4, hidden], [4]
};

/// The first two layers' product.
/// Shapes  prev [features + 1, hidden], the last row its bias; weight [hidden, hidden]; both transposed; bias [hidden].
core::AlignedFloats folded(const core::AlignedFloats& prev, const core::AlignedFloats& weight,
                           const core::AlignedFloats& bias);

/// Shapes  rows [count, features + 1]; hidden: scratch, [count, actor.hidden]; out [count, 4].
void forward(const Actor& actor, std::int64_t count, const float* rows, float* hidden, float* out);

}  // namespace snake_ddp::python
