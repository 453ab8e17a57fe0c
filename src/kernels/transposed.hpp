// Columns of a matrix as rows.
#pragma once

#include <cstdint>
#include <utility>

#include "snake_ddp/core/simd.hpp"
#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::kernels {

// Of two rows of a square of elements: the blocks of kSize columns that are to be in the first row, and in the second one.
template <int kSize, int... kLane>
inline void exchange(core::Vector& first, core::Vector& second, std::integer_sequence<int, kLane...>) {
  const core::Vector a = first, b = second;
  first = core::picked<core::Vector, ((kLane & kSize) != 0 ? core::kLanes + kLane - kSize : kLane)...>(a, b);
  second = core::picked<core::Vector, ((kLane & kSize) != 0 ? core::kLanes + kLane : kLane + kSize)...>(a, b);
}

template <int kSize = core::kLanes / 2>
inline void transpose(core::Vector* rows) {
  for (int i = 0; i < core::kLanes; ++i) {
    if ((i & kSize) == 0)
      exchange<kSize>(rows[i], rows[i + kSize], std::make_integer_sequence<int, core::kLanes>());
  }
  if constexpr (kSize > 1) transpose<kSize / 2>(rows);
}

// Some columns of b that is transposed in memory, square by square, to rows of `packed_row` floats, a multiple of core::kLanes;
// zeros after the last column.
inline void pack_transposed(std::int64_t depth, std::int64_t columns, const float* from, const MatrixView& b,
                            std::int64_t packed_row, float* packed) {
  const std::int64_t whole = b.row == 1 ? depth / core::kLanes * core::kLanes : 0;
  for (std::int64_t left = 0; left < packed_row; left += core::kLanes) {
    const bool square = left + core::kLanes <= columns;
    for (std::int64_t k = 0; square && k < whole; k += core::kLanes) {
      core::Vector rows[core::kLanes];
      for (int j = 0; j < core::kLanes; ++j) rows[j] = core::load(from + (left + j) * b.column + k);
      transpose(rows);
      for (int i = 0; i < core::kLanes; ++i) core::store(packed + (k + i) * packed_row + left, rows[i]);
    }
    for (std::int64_t k = square ? whole : 0; k < depth; ++k) {
      for (std::int64_t j = left; j < left + core::kLanes; ++j)
        packed[k * packed_row + j] = j < columns ? from[k * b.row + j * b.column] : 0.0F;
    }
  }
}

}  // namespace snake_ddp::kernels
