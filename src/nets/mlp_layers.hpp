// The parameters of an Mlp, layer by layer.
#pragma once

#include <array>

#include "nets/mlp.hpp"

namespace snake_ddp::nets {

struct LayerParameters {
  at::Tensor weight, bias, gain, shift;
};
using MlpLayers = std::array<LayerParameters, kHiddenLayers + 1>;

/// Views of `p`, which has the layout of a network of this shape. Weights of hidden layers are stored as [in, out], the last one
/// as [out, in]: so the products read adjacent columns.
MlpLayers layers_of(const MlpShape& shape, const FlatParameters& p);

}  // namespace snake_ddp::nets
