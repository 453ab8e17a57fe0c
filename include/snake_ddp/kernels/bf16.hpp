// Matrix products of numbers rounded to bfloat16 (8 bits of precision), with sums in float32: by AMX several times as fast as
// products in float32, by AVX512-BF16 up to twice, and 1.3 to 1.6 times where most numbers are 0. On the CPU only.
// Follows  Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2: TDPBF16PS, VDPBF16PS.
#pragma once

#include <cstdint>

#include "snake_ddp/core/aligned.hpp"
#include "snake_ddp/core/bf16.hpp"
#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::kernels {

/// A right factor, rounded to the nearest bfloat16, ties to even, and arranged for products. Weights are arranged once for many
/// products.
class Bf16Matrix {
 public:
  Bf16Matrix() = default;
  /// By floats if the processor does not have `instructions`; then products are no faster than `multiply`.
  /// Shapes  b [p, n] with adjacent elements in its rows; it is copied.
  /// Throws  Bug for other views.
  void set(std::int64_t n, std::int64_t p, MatrixView b, core::Bf16By instructions = core::fastest_bf16());

  [[nodiscard]] bool empty() const { return p_ == 0; }

 private:
  friend void multiply_bf16(std::int64_t m, MatrixView a, const Bf16Matrix& b, float* out,
                            std::int64_t out_row, bool add);
  std::int64_t n_ = 0, p_ = 0;
  core::Bf16By by_ = core::Bf16By::kFloats;
  core::AlignedFloats numbers_;  // tiles, columns of vectors, or floats
};

/// As `multiply`, with the elements of a rounded likewise. The order of the sums depends on b's instructions.
/// Shapes  a [m, p] with adjacent elements in its rows or in its columns, out [m, n].
/// Threads the calling one. The result depends only on shapes and values: a row's does not depend on the other rows.
/// Throws  Bug for other views.
void multiply_bf16(std::int64_t m, MatrixView a, const Bf16Matrix& b, float* out, std::int64_t out_row,
                   bool add = false);

/// The weights of a layer most of whose inputs are 0, rounded and arranged for products that skip them.
class Bf16Rows {
 public:
  /// By floats if the processor has no vectors of bfloat16.
  /// Shapes  b [rows, n] contiguous; it is copied.
  void set(std::int64_t n, std::int64_t rows, const float* b);

  [[nodiscard]] bool empty() const { return rows_ == 0; }

 private:
  friend void multiply_sparse_bf16(std::int64_t m, std::int64_t p, const float* a, std::int64_t a_row,
                                   const Placing* placing, const Bf16Rows& b, float* out,
                                   std::int64_t out_row);
  std::int64_t n_ = 0, rows_ = 0;
  core::AlignedFloats numbers_;
};

/// As multiply_sparse_placed, or without `placing` as multiply_sparse, with the elements of a rounded likewise.
/// Shapes  a [m, p], out [m, n].
/// Threads the calling one. The result depends only on shapes and values: a row's does not depend on the other rows.
void multiply_sparse_bf16(std::int64_t m, std::int64_t p, const float* a, std::int64_t a_row,
                          const Placing* placing, const Bf16Rows& b, float* out, std::int64_t out_row);

/// As multiply_sparse_transposed, with all elements rounded.
void multiply_sparse_transposed_bf16(std::int64_t m, std::int64_t n, std::int64_t p, const float* a,
                                     std::int64_t a_row, const float* b, float* out, bool add = false);

}  // namespace snake_ddp::kernels
