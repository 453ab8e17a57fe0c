// Matrix products of numbers rounded to bfloat16 (8 bits of precision), with sums in float32: on processors with AMX (Intel's from
// Sapphire Rapids on) several times as fast as products in float32. On the CPU only.
// Follows  Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 1, chapter 18, and TDPBF16PS in volume 2.
#pragma once

#include <cstdint>

#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::kernels {

/// Whether this processor has AMX's products of bfloat16, and the system lets this process use them, which the first call
/// requests.
bool has_bf16_tiles();

/// As `multiply`, with the elements of a and b rounded to the nearest bfloat16, ties to even. The order of the sums depends
/// on `by_tiles`, which needs has_bf16_tiles(); otherwise this is no faster than `multiply`.
/// Shapes  as `multiply`'s, but adjacent elements in a's rows or in its columns, and in b's rows.
/// Threads the calling one. The result depends only on shapes and values: a row's does not depend on the other rows.
/// Throws  Bug for other views.
void multiply_bf16(std::int64_t m, std::int64_t n, std::int64_t p, MatrixView a, MatrixView b, float* out,
                   std::int64_t out_row, bool add = false, bool by_tiles = has_bf16_tiles());

}  // namespace snake_ddp::kernels
