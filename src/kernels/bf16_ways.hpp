// Products of bfloat16 with the instructions that a processor may have; only for those that has_bf16 reports.
#pragma once

#include "bf16_simd.hpp"
#include "snake_ddp/core/aligned.hpp"
#include "snake_ddp/kernels/products.hpp"

#ifdef SD_BF16

namespace snake_ddp::kernels {

/// Arranges b for the product of the same name. Shapes  b [p, n] with adjacent elements in its rows.
void pack_vectors(std::int64_t n, std::int64_t p, const MatrixView& b, core::AlignedFloats& vectors);
void pack_tiles(std::int64_t n, std::int64_t p, const MatrixView& b, core::AlignedFloats& tiles);

/// As multiply_bf16, with what the function above has made of b. a is arranged in `scratch`.
void multiply_by_vectors(std::int64_t m, std::int64_t n, std::int64_t p, const MatrixView& a,
                         const float* right_vectors, core::AlignedFloats& scratch, float* out,
                         std::int64_t out_row, bool add);
void multiply_by_tiles(std::int64_t m, std::int64_t n, std::int64_t p, const MatrixView& a,
                       const float* right_tiles, core::AlignedFloats& scratch, float* out,
                       std::int64_t out_row, bool add);

/// Rounds and arranges b [rows, n] for the product below.
void pack_rows(std::int64_t n, std::int64_t rows, const float* b, core::AlignedFloats& packed);

/// By vectors, as multiply_sparse, or with `placing` as multiply_sparse_placed, with what pack_rows has made of b.
void multiply_rows(std::int64_t m, std::int64_t n, std::int64_t p, const float* a, std::int64_t a_row,
                   const Placing* placing, std::int64_t b_rows, const float* packed, float* out,
                   std::int64_t out_row);

/// By vectors, as multiply_sparse_transposed.
void multiply_transposed_rows(std::int64_t m, std::int64_t n, std::int64_t p, const float* a,
                              std::int64_t a_row, const float* b, float* out, bool add);

}  // namespace snake_ddp::kernels

#endif
