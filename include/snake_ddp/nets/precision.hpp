// The precision of matrix products in feed-forward networks: of the library's, and in main memory of those of Mlp.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "snake_ddp/base/bf16.hpp"

namespace snake_ddp::nets {

/// kFloat32  full float32.
/// kTf32     on GPUs factors rounded to a 10-bit fraction, sums in float32; in main memory float32.
/// kBf16     factors rounded to a 7-bit fraction, sums in float32; the library also rounds results.
enum class Precision { kFloat32, kTf32, kBf16 };

/// Throws  UsageError for anything but "float32", "tf32", "bf16".
Precision precision_from_name(const std::string& name);

/// For all products of the library in this process from now on, and for networks in main memory that are made after this, which
/// compute by `instructions` if they are in bfloat16.
void set_product_precision(Precision precision, base::Bf16By instructions = base::fastest_bf16());
Precision product_precision();
base::Bf16By bf16_instructions();

/// out := a x b.
/// Shapes  a [m, p], b [p, n], out [m, n] float32.
void product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

/// out := a x b + bias.
/// Shapes  as product_out's; bias [n].
void affine_out(at::Tensor& out, const at::Tensor& bias, const at::Tensor& a, const at::Tensor& b);

}  // namespace snake_ddp::nets
