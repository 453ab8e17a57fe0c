#include "actor.hpp"

#include <cmath>

#include "snake_ddp/game/state.hpp"
#include "snake_ddp/kernels/layer_norm.hpp"
#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::python {

core::AlignedFloats folded(const core::AlignedFloats& prev, const core::AlignedFloats& weight,
                           const core::AlignedFloats& bias) {
  const auto hidden = static_cast<std::int64_t>(bias.size()),
             rows = static_cast<std::int64_t>(prev.size()) / hidden;
  core::AlignedFloats map(prev.size());
  kernels::multiply(rows, hidden, hidden, {prev.data(), hidden, 1}, {weight.data(), hidden, 1}, map.data(),
                    hidden);
  float* last = map.data() + (rows - 1) * hidden;
  for (std::int64_t j = 0; j < hidden; ++j) last[j] += bias[static_cast<std::size_t>(j)];
  return map;
}

void forward(const Actor& actor, std::int64_t count, const float* rows, float* hidden, float* out) {
  const std::int64_t width = actor.hidden, features = actor.features;
  kernels::multiply_sparse(count, width, features, rows, features + 1, actor.map.data(), hidden, width);
  kernels::bias_relu(count, width, actor.map.data() + features * width, hidden);
  kernels::few_outputs(count, width, game::kMoves, hidden, actor.last_weight.data(), actor.last_bias.data(),
                       out);
  if (actor.head == nets::Head::kSoftmax) return kernels::softmax_of_four(out, count * game::kMoves);
  for (std::int64_t i = 0; i < count * game::kMoves; ++i) out[i] = std::tanh(out[i]);
}

}  // namespace snake_ddp::python
