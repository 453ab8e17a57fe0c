#include "snake_ddp/kernels/bf16.hpp"

#include <bit>

#include "bf16_ways.hpp"
#include "snake_ddp/core/check.hpp"

namespace snake_ddp::kernels {
namespace {

// The nearest bfloat16, ties to even, as a float. NaN stays NaN.
float rounded(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (x != x) return x;
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000);
}

void round_rows(std::int64_t rows, std::int64_t columns, const MatrixView& of, core::AlignedFloats& out) {
  out.clear();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) out.push_back(rounded(of.data[i * of.row + j * of.column]));
  }
}

}  // namespace

void Bf16Matrix::set(std::int64_t n, std::int64_t p, MatrixView b, core::Bf16By instructions) {
  SD_CHECK(p > 0 && b.column == 1, "b's rows must be contiguous and not empty");
  n_ = n, p_ = p, by_ = core::has_bf16(instructions) ? instructions : core::Bf16By::kFloats;
  switch (by_) {
#ifdef SD_BF16
    case core::Bf16By::kTiles:
      return pack_tiles(n, p, b, numbers_);
    case core::Bf16By::kVectors:
      return pack_vectors(n, p, b, numbers_);
#endif
    default:
      return round_rows(p, n, b, numbers_);
  }
}

void multiply_bf16(std::int64_t m, MatrixView a, const Bf16Matrix& b, float* out, std::int64_t out_row,
                   bool add) {
  SD_CHECK(!b.empty() && (a.column == 1 || a.row == 1), "b must be set, and a's rows or columns contiguous");
  thread_local core::AlignedFloats left;
  const float* right = b.numbers_.data();
  switch (b.by_) {
#ifdef SD_BF16
    case core::Bf16By::kTiles:
      return multiply_by_tiles(m, b.n_, b.p_, a, right, left, out, out_row, add);
    case core::Bf16By::kVectors:
      return multiply_by_vectors(m, b.n_, b.p_, a, right, left, out, out_row, add);
#endif
    default:
      round_rows(m, b.p_, a, left);
      return multiply(m, b.n_, b.p_, {left.data(), b.p_, 1}, {right, b.n_, 1}, out, out_row, add);
  }
}

void Bf16Rows::set(std::int64_t n, std::int64_t rows, const float* b) {
  n_ = n, rows_ = rows;
#ifdef SD_BF16
  if (core::has_bf16(core::Bf16By::kVectors)) return pack_rows(n, rows, b, numbers_);
#endif
  round_rows(rows, n, {b, n, 1}, numbers_);
}

void multiply_sparse_bf16(std::int64_t m, std::int64_t p, const float* a, std::int64_t a_row,
                          const Placing* placing, const Bf16Rows& b, float* out, std::int64_t out_row) {
#ifdef SD_BF16
  if (core::has_bf16(core::Bf16By::kVectors))
    return multiply_rows(m, b.n_, p, a, a_row, placing, b.rows_, b.numbers_.data(), out, out_row);
#endif
  thread_local core::AlignedFloats left;
  round_rows(m, p, {a, a_row, 1}, left);
  if (placing != nullptr)
    return multiply_sparse_placed(m, b.n_, p, left.data(), p, *placing, b.numbers_.data(), out, out_row);
  multiply_sparse(m, b.n_, p, left.data(), p, b.numbers_.data(), out, out_row);
}

void multiply_sparse_transposed_bf16(std::int64_t m, std::int64_t n, std::int64_t p, const float* a,
                                     std::int64_t a_row, const float* b, float* out, bool add) {
#ifdef SD_BF16
  if (core::has_bf16(core::Bf16By::kVectors)) return multiply_transposed_rows(m, n, p, a, a_row, b, out, add);
#endif
  thread_local core::AlignedFloats left, right;
  round_rows(p, m, {a, a_row, 1}, left);
  round_rows(p, n, {b, n, 1}, right);
  multiply_sparse_transposed(m, n, p, left.data(), m, right.data(), out, add);
}

}  // namespace snake_ddp::kernels
