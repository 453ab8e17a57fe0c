// Matrix products of numbers rounded to bfloat16 (8 bits of precision), with sums in float32: on processors with AMX (Intel's from
// Sapphire Rapids on) several times as fast as products in float32. On the CPU only.
// Follows  Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2: TDPBF16PS.
#pragma once

#include <cstdint>

#include "snake_ddp/base/tiles.hpp"
#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::kernels {

/// As `multiply`, with the elements of a and b rounded to the nearest bfloat16, ties to even. The order of the sums depends
/// on `by_tiles`, which needs base::has_bf16_tiles(); otherwise this is no faster than `multiply`.
/// Shapes  as `multiply`'s, but adjacent elements in a's rows or in its columns, and in b's rows.
/// Threads the calling one. The result depends only on shapes and values: a row's does not depend on the other rows.
/// Throws  Bug for other views.
void multiply_bf16(std::int64_t m, std::int64_t n, std::int64_t p, MatrixView a, MatrixView b, float* out,
                   std::int64_t out_row, bool add = false, bool by_tiles = base::has_bf16_tiles());

}  // namespace snake_ddp::kernels
