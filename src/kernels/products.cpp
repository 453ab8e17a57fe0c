#include "snake_ddp/kernels/products.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "elements.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/simd.hpp"
#include "transposed.hpp"

namespace snake_ddp::kernels {
namespace {

using core::kLanes;
using core::load;
using core::store;
using core::Vector;

// The register block: height x kVectors vectors of sums stay in registers while k runs. 32 registers hold 6 x 4 or 12
// x 2 sums and their operands; 16 registers hold 6 x 2 or 12 x 1.
#if defined(__AVX512F__)
constexpr int kWide = 4, kNarrow = 2;
#else
constexpr int kWide = 2, kNarrow = 1;
#endif
// Up to this many rows, or this depth, packing costs more than the unfavourable access to cache lines.
constexpr std::int64_t kFewRows = 48, kShortDepth = 64;
constexpr int kWideRows = 6, kNarrowRows = 12;
constexpr std::int64_t kDepth = 16384 / (kLanes * kWide);  // 64 KiB of packed b

template <int kVectors, int kHeight>
void block(std::int64_t depth, const float* a, std::int64_t a_row, std::int64_t a_column, const float* right,
           std::int64_t right_row, bool add, float* out, std::int64_t out_row, std::int64_t columns) {
  constexpr int kColumns = kLanes * kVectors;
  // Unrolled, so that the sums are in registers from the first to the last statement.
  Vector sum[kHeight][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kHeight; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[i][v] = Vector{};
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector b[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) b[v] = load(right + k * right_row + v * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kHeight; ++i) {
      const float scalar = a[i * a_row + k * a_column];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[i][v] += scalar * b[v];
    }
  }
  float line[kColumns];
  const bool whole = columns == kColumns;
#pragma GCC unroll 16
  for (int i = 0; i < kHeight; ++i) {
    float* to = whole ? out + i * out_row : line;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      store(to + v * kLanes, add && whole ? load(to + v * kLanes) + sum[i][v] : sum[i][v]);
    for (std::int64_t j = 0; !whole && j < columns; ++j)
      out[i * out_row + j] = (add ? out[i * out_row + j] : 0.0F) + line[j];
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
      if (b.column != 1) {
        pack_transposed(depth, columns, b.data + first * b.row + left * b.column, b, kColumns, packed);
        right = packed;
        right_row = kColumns;
      } else if (columns < kColumns || (m > kFewRows && depth > kShortDepth)) {
        for (std::int64_t k = 0; k < depth; ++k) {
          float* to = packed + k * kColumns;
          const float* from = right + k * b.row;
          if (columns == kColumns) {  // a size that is known
            std::memcpy(to, from, kColumns * sizeof(float));
            // The next columns are needed when all rows of a are done with these.
            for (int j = 0; j < kColumns; j += 16) __builtin_prefetch(from + kColumns + j, 0, 2);
            continue;
          }
          std::copy_n(from, columns, to);
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

// A product that skips zeros has to find the other elements, and each of these takes loads that the register block
// shares among rows. It pays off up to this share of nonzero elements.
constexpr double kMostOthers = 0.4;
constexpr std::int64_t kSampled = 32;  // rows
// Columns of b at a time: of a few hundred rows, the first cache holds that many.
constexpr std::int64_t kSparseColumns = 32;
constexpr int kSparseVectors = kSparseColumns / kLanes;
// Sums at a time: enough to hide the latency of an addition.
constexpr int kSparseSums = 8;
// For a symmetric network's first layer, whose rows use few of the sums' and differences' weights.
constexpr int kPlacedVectors = kSparseSums;

// kRows rows of out, kVectors of their columns: for each row the sum of its elements times b's rows at their places.
// Shapes  row i has the elements from first[i] up to first[i + 1].
template <int kVectors, int kRows>
[[gnu::always_inline]] inline void sparse_block(const Elements& all, const std::int64_t* first, int rows,
                                                const float* b, std::int64_t b_row, bool add, float* out,
                                                std::int64_t out_row) {
  Vector sums[kRows][kVectors] = {};
  const auto add_element = [&](int row, std::int64_t at) {
    const float* right = b + all.places[at] * b_row;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[row][v] += all.values[at] * load(right + v * kLanes);
  };
  std::int64_t together = rows == kRows ? first[1] - first[0] : 0;
  for (int i = 1; i < kRows && together > 0; ++i) together = std::min(together, first[i + 1] - first[i]);
  for (std::int64_t k = 0; k < together; ++k) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) add_element(i, first[i] + k);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    if (i >= rows) break;
    for (std::int64_t at = first[i] + together; at < first[i + 1]; ++at) add_element(i, at);
    float* to = out + i * out_row;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v, to += kLanes) store(to, add ? load(to) + sums[i][v] : sums[i][v]);
  }
}

// out = a * b for the m rows of a in order, whose elements `find(i, list)` writes. Callers split sums where `multiply`
// does: otherwise their bits would differ.
// Shapes  at most `most` elements in a row, most <= 2 kDepth; b [b_rows, n] contiguous.
template <class Find>
void multiply_elements(std::int64_t m, std::int64_t n, std::int64_t most, const Find& find, const float* b,
                       std::int64_t b_rows, bool add, float* out, std::int64_t out_row) {
  constexpr std::int64_t kRows = 256, kElements = 24 * 1024;
  static_assert(2 * kDepth < kElements);
  alignas(64) float packed[kDepth * kSparseVectors * kLanes], values[kElements];
  std::int32_t places[kElements];
  std::int64_t first[kRows + 1];
  for (std::int64_t top = 0; top < m;) {
    // As many rows as there is room for; then the same columns of b for all of them.
    std::int64_t rows = 0;
    first[0] = 0;
    for (; rows < kRows && top + rows < m && first[rows] + most + kLanes <= kElements; ++rows)
      first[rows + 1] = first[rows] + find(top + rows, Elements{values + first[rows], places + first[rows]});
    const auto columns = [&](std::int64_t left, auto vectors) {
      constexpr int kTogether = std::max(1, kSparseSums / std::max<int>(vectors, kSparseVectors));
      const float* right = b + left;
      std::int64_t right_row = n;
      if (rows > kFewRows &&
          b_rows <= kDepth) {  // contiguous, so that they do not compete for a few cache sets
        right_row = vectors * kLanes;
        for (std::int64_t k = 0; k < b_rows; ++k)
          std::memcpy(packed + k * right_row, b + left + k * n, vectors * sizeof(Vector));
        right = packed;
      }
      for (std::int64_t i = 0; i < rows; i += kTogether) {
        sparse_block<vectors, kTogether>({values, places}, first + i,
                                         static_cast<int>(std::min<std::int64_t>(kTogether, rows - i)), right,
                                         right_row, add, out + (top + i) * out_row + left, out_row);
      }
    };
    std::int64_t left = 0;
    for (; left + kSparseVectors * kLanes <= n; left += kSparseVectors * kLanes)
      columns(left, std::integral_constant<int, kSparseVectors>());
    for (; left < n; left += kLanes) columns(left, std::integral_constant<int, 1>());
    top += rows;
  }
}

// A sparse product row by row: a row's elements are used while they are in the first cache.
// Shapes  b [b_rows, n], n a multiple of kVectors vectors.
template <int kVectors, class Find>
void multiply_elements_by_row(std::int64_t m, std::int64_t n, const Find& find, const float* b, bool add,
                              float* out, std::int64_t out_row) {
  float values[2 * kDepth + kLanes];
  std::int32_t places[2 * kDepth + kLanes];
  for (std::int64_t i = 0; i < m; ++i) {
    const std::int64_t first[] = {0, find(i, Elements{values, places})};
    for (std::int64_t left = 0; left < n; left += kVectors * kLanes)
      sparse_block<kVectors, 1>({values, places}, first, 1, b + left, n, add, out + i * out_row + left,
                                out_row);
  }
}

}  // namespace

bool has_many_zeros(std::int64_t rows, std::int64_t columns, const float* a, std::int64_t a_row) {
  rows = std::min(rows, kSampled);
  std::int64_t others = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < columns; ++k) others += static_cast<std::int64_t>(a[i * a_row + k] != 0.0F);
  }
  return static_cast<double>(others) < kMostOthers * static_cast<double>(rows * columns);
}

void multiply_sparse(std::int64_t m, std::int64_t n, std::int64_t p, const float* a, std::int64_t a_row,
                     const float* b, float* out, std::int64_t out_row) {
  for (std::int64_t first = 0; first < p; first += kDepth) {
    const std::int64_t depth = std::min(kDepth, p - first);
    if (n % kLanes != 0 || !has_many_zeros(m, depth, a + first, a_row)) {
      multiply(m, n, depth, {a + first, a_row, 1}, {b + first * n, n, 1}, out, out_row, first > 0);
      continue;
    }
    multiply_elements(
        m, n, depth,
        [&](std::int64_t i, const Elements& list) { return list.find(a + i * a_row + first, depth); },
        b + first * n, depth, first > 0, out, out_row);
  }
}

void multiply_sparse_placed(std::int64_t m, std::int64_t n, std::int64_t p, const float* a,
                            std::int64_t a_row, const Placing& placing, const float* b, float* out,
                            std::int64_t out_row) {
  if (n % kLanes != 0) {
    for (std::int64_t i = 0; i < m; ++i) {
      float* to = out + i * out_row;
      std::fill_n(to, n, 0.0F);
      for (std::int64_t k = 0; k < p; ++k) {
        if (placing.place[k] < 0) continue;
        const float x = a[i * a_row + k] * placing.sign[k];
        const float* right = b + placing.place[k] * n;
        for (std::int64_t j = 0; j < n; ++j) to[j] += x * right[j];
      }
    }
    return;
  }
  constexpr std::int64_t kMost = 2 * kDepth;
  for (std::int64_t first = 0; first < p; first += kMost) {
    const std::int64_t depth = std::min(kMost, p - first);
    const Placing part{placing.place + first, placing.sign + first, placing.rows};
    const auto find = [&](std::int64_t i, const Elements& list) {
      return list.find_placed(a + i * a_row + first, depth, part);
    };
    if (n % (kPlacedVectors * kLanes) == 0)
      multiply_elements_by_row<kPlacedVectors>(m, n, find, b, first > 0, out, out_row);
    else
      multiply_elements(m, n, depth, find, b, placing.rows, first > 0, out, out_row);
  }
}

void multiply_sparse_transposed(std::int64_t m, std::int64_t n, std::int64_t p, const float* a,
                                std::int64_t a_row, const float* b, float* out, bool add) {
  if (m > kDepth) {  // what multiply_sparse takes together
    for (std::int64_t left = 0; left < m; left += kDepth)
      multiply_sparse_transposed(std::min(kDepth, m - left), n, p, a + left, a_row, b, out + left * n, add);
    return;
  }
  if (n % kLanes != 0 || !has_many_zeros(p, m, a, a_row)) {
    multiply(m, n, p, {a, 1, a_row}, {b, n, 1}, out, n, add);
    return;
  }
  constexpr std::int64_t kGroup = 16;  // columns of a: a cache line
  alignas(64) float turned[kGroup * kDepth];
  for (std::int64_t first = 0; first < p; first += kDepth) {
    const std::int64_t depth = std::min(kDepth, p - first);
    const std::int64_t turned_row = (depth + kLanes - 1) / kLanes * kLanes;
    const auto row = [&](std::int64_t i) {
      if (i % kGroup == 0) {
        pack_transposed(std::min(kGroup, m - i), depth, a + first * a_row + i, {a, 1, a_row}, turned_row,
                        turned);
      }
      return turned + i % kGroup * turned_row;
    };
    multiply_elements(
        m, n, depth, [&](std::int64_t i, const Elements& list) { return list.find(row(i), depth); },
        b + first * n, depth, add || first > 0, out, n);
  }
}

void multiply(std::int64_t m, std::int64_t n, std::int64_t p, MatrixView a, MatrixView b, float* out,
              std::int64_t out_row, bool add) {
  SD_CHECK(p > 0, "a product needs an inner dimension of 1 or more");
  if (n <= kLanes * kNarrow) {
    multiply_in_blocks<kNarrow, kNarrowRows>(m, n, p, a, b, out, out_row, add);
  } else {
    multiply_in_blocks<kWide, kWideRows>(m, n, p, a, b, out, out_row, add);
  }
}

}  // namespace snake_ddp::kernels
