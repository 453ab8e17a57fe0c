#include "bf16_ways.hpp"

#ifdef SD_BF16

#include <algorithm>
#include <array>
#include <utility>

namespace snake_ddp::kernels {
namespace {

// The register block: sums of 6 rows and 4 vectors of columns stay in registers, as in products.cpp.
constexpr int kRows = 6, kVectors = 4;
constexpr std::int64_t kColumns = kVectors * kVector;

// The left factor's pairs: pair k of row i is at i * row + k * pair.
struct Pairs {
  const float* data;
  std::int64_t row, pair;
};

// kHeight rows of the left factor times one block of columns, of which `columns` are inside of the matrix.
template <int kHeight>
SD_FOR_VECTORS void block(std::int64_t depth, const Pairs& a, const float* right, std::int64_t columns,
                          bool add, float* out, std::int64_t out_row) {
  __m512 sum[kHeight][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kHeight; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_setzero_ps();
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    __m512bh b[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) b[v] = as_bf16(_mm512_load_si512(right + k * kColumns + v * kVector));
#pragma GCC unroll 8
    for (int i = 0; i < kHeight; ++i) {
      std::int32_t pair = 0;
      std::memcpy(&pair, a.data + i * a.row + k * a.pair, sizeof pair);
      const __m512bh scalar = as_bf16(_mm512_set1_epi32(pair));
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_dpbf16_ps(sum[i][v], scalar, b[v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kHeight; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      put_lanes(sum[i][v], first_lanes(columns - v * kVector), add, out + i * out_row + v * kVector);
    }
  }
}

using Block = void (*)(std::int64_t, const Pairs&, const float*, std::int64_t, bool, float*, std::int64_t);

// By height - 1.
template <int... kHeights>
constexpr std::array<Block, sizeof...(kHeights)> blocks_up_to(std::integer_sequence<int, kHeights...>) {
  return {block<kHeights + 1>...};
}

// Rows side by side, or if a is transposed in memory, its pairs of columns.
SD_FOR_VECTORS Pairs pack_left(std::int64_t m, std::int64_t p, const MatrixView& a,
                               core::AlignedFloats& scratch) {
  const std::int64_t depth = parts_of(p, 2), lines = a.column == 1 ? m : depth,
                     line_floats = parts_of(a.column == 1 ? depth : m, kVector) * kVector;
  if (scratch.size() < static_cast<std::size_t>(lines * line_floats))
    scratch.resize(static_cast<std::size_t>(lines * line_floats));
  float* to = scratch.data();
  for (std::int64_t line = 0; line < lines; ++line) {
    for (std::int64_t at = 0; at < line_floats; at += kVector, to += kVector) {
      if (a.column == 1) {
        _mm512_store_si512(to, narrow_floats(a.data + line * a.row + 2 * at, p - 2 * at));
      } else {
        _mm512_store_si512(to, pairs_of_rows(a.data + 2 * line * a.column + at, a.column, p - 2 * line,
                                             first_lanes(m - at)));
      }
    }
  }
  return a.column == 1 ? Pairs{scratch.data(), line_floats, 1} : Pairs{scratch.data(), 1, line_floats};
}

}  // namespace

// Block of columns by block of columns; in each, pair by pair.
SD_FOR_VECTORS void pack_vectors(std::int64_t n, std::int64_t p, const MatrixView& b,
                                 core::AlignedFloats& vectors) {
  vectors.resize(static_cast<std::size_t>(parts_of(n, kColumns) * kColumns * parts_of(p, 2)));
  float* to = vectors.data();
  for (std::int64_t first = 0; first < n; first += kColumns) {
    for (std::int64_t k = 0; k < p; k += 2) {
      const float* from = b.data + k * b.row;
      for (std::int64_t left = first; left < first + kColumns; left += kVector, to += kVector)
        _mm512_store_si512(to, pairs_of_rows(from + left, b.row, p - k, first_lanes(n - left)));
    }
  }
}

void multiply_by_vectors(std::int64_t m, std::int64_t n, std::int64_t p, const MatrixView& a,
                         const float* right_vectors, core::AlignedFloats& scratch, float* out,
                         std::int64_t out_row, bool add) {
  static constexpr auto kBlocks = blocks_up_to(std::make_integer_sequence<int, kRows>());
  const Pairs pairs = pack_left(m, p, a, scratch);
  const std::int64_t depth = parts_of(p, 2);
  for (std::int64_t first = 0; first < n; first += kColumns) {
    const float* right = right_vectors + first * depth;
    for (std::int64_t top = 0; top < m; top += kRows) {
      const auto height = static_cast<std::size_t>(std::min<std::int64_t>(kRows, m - top));
      kBlocks[height - 1](depth, {pairs.data + top * pairs.row, pairs.row, pairs.pair}, right, n - first, add,
                          out + top * out_row + first, out_row);
    }
  }
}

}  // namespace snake_ddp::kernels

#endif
