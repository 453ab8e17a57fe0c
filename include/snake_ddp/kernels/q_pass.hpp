// The forward pass of a Q-network of three layers in main memory: for training, matches and searches.
#pragma once

#include <array>
#include <cstdint>

#include "snake_ddp/kernels/rounded_layers.hpp"

namespace snake_ddp::kernels {

/// The weights; nothing is owned.
struct QLayers {
  struct Layer {
    const float* weight;                            // hidden layers [in, hidden], the last one [out, hidden]
    const float* bias;                              // [hidden], the last one's [out]
    const float *gain = nullptr, *shift = nullptr;  // [hidden], with layer norm only
  };
  std::int64_t in, hidden, out;
  std::array<Layer, 3> layer;
  /// Of a symmetric network: its inputs, and the folded weights of both hidden layers (kernels/halves.hpp).
  const Halves* inputs = nullptr;
  std::array<const float*, 2> folded = {};
  /// Of a network in bfloat16.
  const RoundedFirst* rounded_first = nullptr;
  const RoundedSecond* rounded_second = nullptr;
  /// A batch with few zeros takes the whole product in float32 in the first layer. A row's result then depends on its batch.
  bool by_density = false;
};

/// What is left of each hidden layer, for a backward pass. Where `normal` is `hidden` nothing is kept for one.
struct QRows {
  std::array<float*, 2> normal, hidden, inverse_deviation;  // [rows, hidden], [rows, hidden], [rows]
  float*
      sums;  // [rows, hidden], of a symmetric network: the first layer's halves exchanged; may be its `hidden`
};

/// Shapes  from [rows, in], `from_row` apart; q [rows, out].
/// Cost    the first layer's cost grows with the number of inputs that are not 0.
void forward(const QLayers& net, std::int64_t rows, const float* from, std::int64_t from_row,
             const QRows& kept, float* q);

}  // namespace snake_ddp::kernels
