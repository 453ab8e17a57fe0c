// Passes of an Mlp in main memory.
#pragma once

#include "nets/mlp.hpp"

namespace snake_ddp::nets {

/// As forward and backward of nets/mlp.hpp: rows go through all layers in chunks, so that each layer finds in cache what the one
/// below has written.
void forward_by_chunks(const Mlp& net, const at::Tensor& input, MlpPass& pass, bool keep);
void backward_by_chunks(const Mlp& net, const at::Tensor& input, const at::Tensor& d_output, MlpPass& pass,
                        FlatParameters& gradients);

}  // namespace snake_ddp::nets
