// A Q-network as search uses it: float weights, no library, and a row's result has the same bits in any batch.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "snake_ddp/core/aligned.hpp"
#include "snake_ddp/kernels/halves.hpp"
#include "snake_ddp/kernels/rounded_layers.hpp"

namespace snake_ddp::play {

/// The weights of three layers: two hidden ones with ReLU, with layer norm before it if `gain` is not empty; then a
/// plain one.
struct QWeights {
  struct Layer {
    core::AlignedFloats weight;       // hidden layers [in, hidden], the last one [4, hidden]
    core::AlignedFloats bias;         // [hidden], the last one's [4]
    core::AlignedFloats gain, shift;  // [hidden] or empty
  };
  std::int64_t features = 0, hidden = 0;
  std::array<Layer, 3> layer;
  /// For a symmetric network its inputs, and the folded weights of both hidden layers (kernels/halves.hpp); else empty.
  kernels::Halves inputs = {};
  std::array<core::AlignedFloats, 2> folded = {};
  /// The weights of hidden layers in bfloat16, which passes use if they are there.
  kernels::RoundedFirst first_rounded = {};
  kernels::RoundedSecond second_rounded = {};
};

/// Fills `first_rounded` and `second_rounded`; after `fold` if the network is symmetric.
void round_weights(QWeights& net, core::Bf16By instructions = core::fastest_bf16());

/// Whether the network is its own image when left and right are exchanged, with kernels::mirrored_units. Never for other
/// numbers of inputs or outputs than those of `mirror`.
bool is_symmetric(const QWeights& net, const core::Mirror& mirror);

/// Fills `inputs` and `folded` of a symmetric network. `mirrored_inputs`: how its inputs change if left and right are
/// exchanged.
void fold(QWeights& net, const std::vector<core::MirrorImage>& mirrored_inputs);

/// Folds the weights if the network is symmetric.
void fold_if_symmetric(QWeights& net, const core::Mirror& mirror);

/// A pass's intermediate results, reused from call to call.
struct QScratch {
  core::AlignedFloats first, second, deviation;
};

/// Shapes  rows [count, row_floats], of which the first `features` floats are read; q [count, 4].
/// Cost    the first layer's cost grows with the number of features that are not 0.
/// Returns the bits of nets::Mlp with the same weights.
void forward(const QWeights& net, std::int64_t count, const float* rows, std::int64_t row_floats,
             QScratch& scratch, float* q);

}  // namespace snake_ddp::play
