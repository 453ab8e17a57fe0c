// The right factor of several products, such as a layer's weights in all steps of a sequence.
#pragma once

#include <ATen/core/Tensor.h>

#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::nets {

struct RightFactor {
  at::Tensor matrix;       // a view, for the library's products
  kernels::Panels panels;  // a copy, for our own
};

}  // namespace snake_ddp::nets
