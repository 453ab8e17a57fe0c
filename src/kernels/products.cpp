#include "snake_ddp/kernels/products.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "snake_ddp/base/check.hpp"
#include "snake_ddp/base/simd.hpp"

namespace snake_ddp::kernels {
namespace {

using base::kLanes;
using base::load;
using base::store;
using base::Vector;

// The register block: height x kVectors vectors of sums stay in registers while k runs. 32 registers hold 6 x 4 or
// 12 x 2 sums with what they are made of; 16 registers hold 6 x 2 or 12 x 1.
#if defined(__AVX512F__)
constexpr int kWide = 4, kNarrow = 2;
#else
constexpr int kWide = 2, kNarrow = 1;
#endif
// Up to so many rows, or so short a depth, packing costs more than the cache lines that lie badly.
constexpr std::int64_t kFewRows = 48, kShortDepth = 64;
constexpr int kWideRows = 6, kNarrowRows = 12;
constexpr std::int64_t kDepth = 16384 / (kLanes * kWide);  // 64 KiB of packed b

template <int kVectors, int kHeight>
void block(std::int64_t depth, const float* a, std::int64_t a_row, std::int64_t a_column, const float* right,
           std::int64_t right_row, bool add, float* out, std::int64_t out_row, std::int64_t columns) {
  constexpr int kColumns = kLanes * kVectors;
  Vector sum[kHeight][kVectors] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector b[kVectors];
    for (int v = 0; v < kVectors; ++v) b[v] = load(right + k * right_row + v * kLanes);
    for (int i = 0; i < kHeight; ++i) {
      const float scalar = a[i * a_row + k * a_column];
      for (int v = 0; v < kVectors; ++v) sum[i][v] += scalar * b[v];
    }
  }
  for (int i = 0; i < kHeight; ++i) {
    float* to = out + i * out_row;
    if (columns == kColumns) {
      for (int v = 0; v < kVectors; ++v) {
        store(to + v * kLanes, add ? load(to + v * kLanes) + sum[i][v] : sum[i][v]);
      }
    } else {
      float line[kColumns];
      std::memcpy(line, sum[i], sizeof line);
      for (std::int64_t j = 0; j < columns; ++j) to[j] = (add ? to[j] : 0.0F) + line[j];
    }
  }
}

using Block = void (*)(std::int64_t, const float*, std::int64_t, std::int64_t, const float*, std::int64_t,
                       bool, float*, std::int64_t, std::int64_t);

// By height - 1.
template <int kVectors, int... kHeights>
constexpr std::array<Block, sizeof...(kHeights)> blocks_up_to(std::integer_sequence<int, kHeights...>) {
  return {block<kVectors, kHeights + 1>...};
}

template <int kVectors, int kRows>
void multiply_in_blocks(std::int64_t m, std::int64_t n, std::int64_t p, MatrixView a, MatrixView b,
                        float* out, std::int64_t out_row, bool add) {
  static constexpr auto kBlocks = blocks_up_to<kVectors>(std::make_integer_sequence<int, kRows>());
  constexpr int kColumns = kLanes * kVectors;
  alignas(64) float packed[kDepth * kColumns];
  for (std::int64_t first = 0; first < p; first += kDepth) {
    const std::int64_t depth = std::min(kDepth, p - first);
    for (std::int64_t left = 0; left < n; left += kColumns) {
      const std::int64_t columns = std::min<std::int64_t>(kColumns, n - left);
      const float* right = b.data + first * b.row + left;
      std::int64_t right_row = b.row;
      if (columns < kColumns || (m > kFewRows && depth > kShortDepth)) {
        for (std::int64_t k = 0; k < depth; ++k) {
          float* to = packed + k * kColumns;
          std::memcpy(to, right + k * b.row, static_cast<std::size_t>(columns) * sizeof(float));
          std::fill(to + columns, to + kColumns, 0.0F);
        }
        right = packed;
        right_row = kColumns;
      }
      for (std::int64_t top = 0; top < m; top += kRows) {
        const auto height = static_cast<std::size_t>(std::min<std::int64_t>(kRows, m - top));
        kBlocks[height - 1](depth, a.data + top * a.row + first * a.column, a.row, a.column, right, right_row,
                            add || first > 0, out + top * out_row + left, out_row, columns);
      }
    }
  }
}

// Columns of one row: the sum over `count` elements of a, named by their places.
template <int kVectors>
void sparse_block(int count, const std::int32_t* place, const float* a, const float* b, std::int64_t n,
                  bool add, float* out) {
  Vector sum[kVectors] = {};
  for (int k = 0; k < count; ++k) {
    const float scalar = a[place[k]];
    const float* right = b + place[k] * n;
    for (int v = 0; v < kVectors; ++v) sum[v] += scalar * load(right + v * kLanes);
  }
  for (int v = 0; v < kVectors; ++v) store(out + v * kLanes, add ? load(out + v * kLanes) + sum[v] : sum[v]);
}

}  // namespace

void multiply_sparse(std::int64_t m, std::int64_t n, std::int64_t p, const float* a, std::int64_t a_row,
                     const float* b, float* out, std::int64_t out_row) {
  if (n % kLanes != 0) {
    multiply(m, n, p, {a, a_row, 1}, {b, n, 1}, out, out_row);
    return;
  }
  constexpr int kMany = 2 * kWide;
  std::int32_t place[kDepth];
  for (std::int64_t i = 0; i < m; ++i) {
    // Split where `multiply` splits: only so are the sums' bits the same.
    for (std::int64_t first = 0; first < p; first += kDepth) {
      const auto depth = static_cast<std::int32_t>(std::min(kDepth, p - first));
      const float* row = a + i * a_row + first;
      int count = 0;
      for (std::int32_t k = 0; k < depth; ++k) {
        place[count] = k;
        count += static_cast<int>(row[k] != 0.0F);
      }
      std::int64_t left = 0;
      for (; left + kMany * kLanes <= n; left += kMany * kLanes)
        sparse_block<kMany>(count, place, row, b + first * n + left, n, first > 0, out + i * out_row + left);
      for (; left < n; left += kLanes)
        sparse_block<1>(count, place, row, b + first * n + left, n, first > 0, out + i * out_row + left);
    }
  }
}

void multiply(std::int64_t m, std::int64_t n, std::int64_t p, MatrixView a, MatrixView b, float* out,
              std::int64_t out_row, bool add) {
  SD_CHECK(b.column == 1 && p > 0, "columns of b side by side");
  if (n <= kLanes * kNarrow) {
    multiply_in_blocks<kNarrow, kNarrowRows>(m, n, p, a, b, out, out_row, add);
  } else {
    multiply_in_blocks<kWide, kWideRows>(m, n, p, a, b, out, out_row, add);
  }
}

}  // namespace snake_ddp::kernels
