#include "snake_ddp/kernels/products.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "snake_ddp/base/check.hpp"
#include "snake_ddp/base/simd.hpp"

namespace snake_ddp::kernels {
namespace {

using base::kLanes;
using base::load;
using base::store;
using base::Vector;

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

// Of two rows of a square of elements: the blocks of kSize columns that are to be in the first row, and in the second one.
template <int kSize, int... kLane>
inline void exchange(Vector& first, Vector& second, std::integer_sequence<int, kLane...>) {
  const Vector a = first, b = second;
  first = base::picked<Vector, ((kLane & kSize) != 0 ? kLanes + kLane - kSize : kLane)...>(a, b);
  second = base::picked<Vector, ((kLane & kSize) != 0 ? kLanes + kLane : kLane + kSize)...>(a, b);
}

template <int kSize = kLanes / 2>
inline void transpose(Vector* rows) {
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kSize) == 0)
      exchange<kSize>(rows[i], rows[i + kSize], std::make_integer_sequence<int, kLanes>());
  }
  if constexpr (kSize > 1) transpose<kSize / 2>(rows);
}

// Some columns of b that lies transposed, square by square; zeros after the last one.
template <int kColumns>
void pack_transposed(std::int64_t depth, std::int64_t columns, const float* from, const MatrixView& b,
                     float* packed) {
  const std::int64_t whole = b.row == 1 ? depth / kLanes * kLanes : 0;
  for (std::int64_t left = 0; left < kColumns; left += kLanes) {
    const bool square = left + kLanes <= columns;
    for (std::int64_t k = 0; square && k < whole; k += kLanes) {
      Vector rows[kLanes];
      for (int j = 0; j < kLanes; ++j) rows[j] = load(from + (left + j) * b.column + k);
      transpose(rows);
      for (int i = 0; i < kLanes; ++i) store(packed + (k + i) * kColumns + left, rows[i]);
    }
    for (std::int64_t k = square ? whole : 0; k < depth; ++k) {
      for (std::int64_t j = left; j < left + kLanes; ++j)
        packed[k * kColumns + j] = j < columns ? from[k * b.row + j * b.column] : 0.0F;
    }
  }
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
        pack_transposed<kColumns>(depth, columns, b.data + first * b.row + left * b.column, b, packed);
        right = packed;
        right_row = kColumns;
      } else if (columns < kColumns || (m > kFewRows && depth > kShortDepth)) {
        for (std::int64_t k = 0; k < depth; ++k) {
          float* to = packed + k * kColumns;
          const float* from = right + k * b.row;
          if (columns == kColumns) {  // a size that is known
            std::memcpy(to, from, kColumns * sizeof(float));
            // The next columns are needed when all rows of a are through with these.
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
constexpr int kSparseVectors = 4;      // of sums at a time
constexpr std::int64_t kSparseColumns = kSparseVectors * kLanes;

bool many_zeros(std::int64_t rows, std::int64_t columns, const float* a, std::int64_t a_row) {
  rows = std::min(rows, kSampled);
  std::int64_t others = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < columns; ++k) others += static_cast<std::int64_t>(a[i * a_row + k] != 0.0F);
  }
  return static_cast<double>(others) < kMostOthers * static_cast<double>(rows * columns);
}

// Elements that are not 0, in order.
struct Element {
  float value;
  std::int32_t place;
};

// Appends element `place` to `list` if it is not 0.
inline Element* append(Element* list, float value, std::int64_t place) {
  *list = {value, static_cast<std::int32_t>(place)};
  return list + ((std::bit_cast<std::uint32_t>(value) << 1) != 0 ? 1 : 0);
}

template <int kVectors>
struct Sums {
  Vector of[kVectors] = {};
  void put(bool add, float* out) const {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store(out + v * kLanes, add ? load(out + v * kLanes) + of[v] : of[v]);
  }
};

// Adds to the sums: each of these elements of a times the row of b at its place.
template <int kVectors>
[[gnu::always_inline]] inline void add_at(const Element* first, const Element* last, const float* b,
                                          std::int64_t b_row, Sums<kVectors>& sums) {
  for (; first != last; ++first) {
    const float* right = b + first->place * b_row;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums.of[v] += first->value * load(right + v * kLanes);
  }
}

// Two rows at once: the additions of one hide the latency of the other's.
template <int kVectors>
[[gnu::always_inline]] inline void add_at(const Element* first, const Element* last, const Element* other,
                                          const Element* other_last, const float* b, std::int64_t b_row,
                                          Sums<kVectors>& sums, Sums<kVectors>& other_sums) {
  for (; first != last && other != other_last; ++first, ++other) {
    const float *right = b + first->place * b_row, *other_right = b + other->place * b_row;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums.of[v] += first->value * load(right + v * kLanes);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) other_sums.of[v] += other->value * load(other_right + v * kLanes);
  }
  add_at(first, last, b, b_row, sums);
  add_at(other, other_last, b, b_row, other_sums);
}

// Calls columns(left, vectors) for all n columns, with vectors a constant.
template <class Columns>
void in_column_blocks(std::int64_t n, const Columns& columns) {
  std::int64_t left = 0;
  for (; left + kSparseColumns <= n; left += kSparseColumns)
    columns(left, std::integral_constant<int, kSparseVectors>());
  for (; left < n; left += kLanes) columns(left, std::integral_constant<int, 1>());
}

}  // namespace

// Both split sums where `multiply` does: otherwise their bits would differ.
void multiply_sparse(std::int64_t m, std::int64_t n, std::int64_t p, const float* a, std::int64_t a_row,
                     const float* b, float* out, std::int64_t out_row) {
  if (n % kLanes != 0 || !many_zeros(m, p, a, a_row)) {
    multiply(m, n, p, {a, a_row, 1}, {b, n, 1}, out, out_row);
    return;
  }
  constexpr std::int64_t kRows = 128, kElements = 16384;
  static_assert(kDepth < kElements);
  Element elements[kElements];
  alignas(64) float packed[kDepth * kSparseColumns];
  for (std::int64_t first = 0; first < p; first += kDepth) {
    const std::int64_t depth = std::min(kDepth, p - first);
    for (std::int64_t top = 0; top < m;) {
      // As many rows as there is room for; then the same columns of b for all of them.
      Element* from[kRows + 1];
      std::int64_t rows = 0;
      from[0] = elements;
      while (rows < kRows && top + rows < m && elements + kElements - from[rows] > depth) {
        const float* row = a + (top + rows) * a_row + first;
        Element* list = from[rows];
        for (std::int64_t k = 0; k < depth; ++k) list = append(list, row[k], k);
        from[++rows] = list;
      }
      in_column_blocks(n, [&](std::int64_t left, auto vectors) {
        const float* right = b + first * n + left;
        std::int64_t right_row = n;
        if (rows > kFewRows) {  // contiguous, so that they do not compete for a few cache sets
          right_row = vectors * kLanes;
          for (std::int64_t k = 0; k < depth; ++k)
            std::memcpy(packed + k * right_row, right + k * n, vectors * sizeof(Vector));
          right = packed;
        }
        for (std::int64_t i = 0; i < rows; i += 2) {
          const bool pair = i + 1 < rows;
          Sums<vectors> sums, next;
          add_at(from[i], from[i + 1], from[i + 1], from[pair ? i + 2 : i + 1], right, right_row, sums, next);
          sums.put(first > 0, out + (top + i) * out_row + left);
          if (pair) next.put(first > 0, out + (top + i + 1) * out_row + left);
        }
      });
      top += rows;
    }
  }
}

void multiply_sparse_transposed(std::int64_t m, std::int64_t n, std::int64_t p, const float* a,
                                std::int64_t a_row, const float* b, float* out, bool add) {
  if (n % kLanes != 0 || !many_zeros(p, m, a, a_row)) {
    multiply(m, n, p, {a, 1, a_row}, {b, n, 1}, out, n, add);
    return;
  }
  constexpr std::int64_t kGroup = 16;  // columns of a: a cache line
  constexpr std::int64_t kRows = 128;  // rows of b that stay in the first cache
  constexpr std::int64_t kChunks = (kDepth + kRows - 1) / kRows;
  Element elements[kGroup][kDepth + 1];
  Element* from[kChunks + 1][kGroup];
  for (std::int64_t first = 0; first < p; first += kDepth) {
    const std::int64_t depth = std::min(kDepth, p - first), chunks = (depth + kRows - 1) / kRows;
    for (std::int64_t top = 0; top < m; top += kGroup) {
      const std::int64_t group = std::min(kGroup, m - top);
      Element* list[kGroup];
      for (std::int64_t i = 0; i < group; ++i) list[i] = elements[i];
      for (std::int64_t k = 0; k < depth; ++k) {
        if (k % kRows == 0) std::copy_n(list, group, from[k / kRows]);
        const float* row = a + (first + k) * a_row + top;
        for (std::int64_t i = 0; i < group; ++i) list[i] = append(list[i], row[i], k);
      }
      std::copy_n(list, group, from[chunks]);
      in_column_blocks(n, [&](std::int64_t left, auto vectors) {
        Sums<vectors> sums[kGroup];
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
          for (std::int64_t i = 0; i < group; ++i)
            add_at(from[chunk][i], from[chunk + 1][i], b + first * n + left, n, sums[i]);
        }
        for (std::int64_t i = 0; i < group; ++i) sums[i].put(add || first > 0, out + (top + i) * n + left);
      });
    }
  }
}

void multiply(std::int64_t m, std::int64_t n, std::int64_t p, MatrixView a, MatrixView b, float* out,
              std::int64_t out_row, bool add) {
  SD_CHECK(p > 0, "a product over nothing");
  if (n <= kLanes * kNarrow) {
    multiply_in_blocks<kNarrow, kNarrowRows>(m, n, p, a, b, out, out_row, add);
  } else {
    multiply_in_blocks<kWide, kWideRows>(m, n, p, a, b, out, out_row, add);
  }
}

}  // namespace snake_ddp::kernels
