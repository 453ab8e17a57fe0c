// The precision of matrix products: of the library's on GPUs, and in main memory of those of Mlp.
#pragma once

#include <string>

#include "snake_ddp/core/bf16.hpp"

namespace snake_ddp::nets {

/// kFloat32  full float32.
/// kTf32     on GPUs factors rounded to a 10-bit fraction, sums in float32; in main memory float32.
/// kBf16     in main memory factors rounded to a 7-bit fraction, sums in float32; on GPUs float32.
enum class Precision { kFloat32, kTf32, kBf16 };

/// Throws  UsageError for anything but "float32", "tf32", "bf16".
Precision precision_from_name(const std::string& name);

/// For all products of the library in this process from now on, and for networks in main memory that are made after this, which
/// compute by `instructions` if they are in bfloat16.
void set_product_precision(Precision precision, core::Bf16By instructions = core::fastest_bf16());
Precision product_precision();
core::Bf16By bf16_instructions();

}  // namespace snake_ddp::nets
