// The layer that gives a network's few outputs.
#pragma once

#include <ATen/core/Tensor.h>

namespace snake_ddp::nets {

/// out = hidden * weight^T + bias, in float32 whatever set_product_precision says. On a GPU by our kernel if this build has it, else
/// by the library.
/// Shapes  hidden [R, width], weight [outputs, width], bias [outputs], out [R, outputs].
void last_layer_out(at::Tensor& out, const at::Tensor& bias, const at::Tensor& hidden,
                    const at::Tensor& weight);

}  // namespace snake_ddp::nets
