// The right factor of several products, such as a layer's weights in all steps of a sequence.
#pragma once

#include <ATen/core/Tensor.h>

#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::nets {

/// Filled by `arrange` (src/nets/layers.hpp), and again after each change of the matrix. Shapes  matrix [p, n].
struct RightFactor {
  at::Tensor matrix;       // for the library's products: the matrix itself, shared with its owner
  kernels::Panels panels;  // for our own: a copy
};

}  // namespace snake_ddp::nets
