#include "bf16_ways.hpp"

#ifdef SD_BF16

#include <algorithm>

#include "elements.hpp"
#include "transposed.hpp"

namespace snake_ddp::kernels {
namespace {

constexpr std::int64_t kWords = 2 * kVector;  // bfloat16 in a vector
constexpr std::int64_t kMost = 1024;          // elements of a row at a time
// Columns at a time, so that those of b's rows stay in the first-level cache, and rows of a: enough to hide the latency of an addition.
constexpr int kVectors = 2, kTogether = 3;
constexpr std::int64_t kColumns = kVectors * kWords;

// The elements of a row that are not 0: rounded to bfloat16, in pairs.
struct PairedElements {
  std::uint16_t* words;
  std::int32_t* places;
};

// From `count` values, which have room for two vectors more. The last one's partner may be a 0. Returns the number with that.
SD_FOR_VECTORS std::int64_t round_pairs(std::int64_t count, float* values, const PairedElements& pairs) {
  if (count % 2 != 0) {
    values[count] = 0;
    pairs.places[count] = pairs.places[count - 1];
    ++count;
  }
  for (std::int64_t k = 0; k < count; k += kWords)
    _mm512_storeu_si512(pairs.words + k,
                        narrow(_mm512_loadu_ps(values + k), _mm512_loadu_ps(values + k + kVector)));
  return count;
}

// Adds one pair of elements times the rows of b at their places. Vectors 2 v and 2 v + 1 of the sums have the columns of b's vector v,
// as the interleaved halves of its 128-bit lanes.
[[gnu::always_inline]] SD_FOR_VECTORS inline void add_pair(const PairedElements& pairs, std::int64_t at,
                                                           const float* b, __m512* sum) {
  std::int32_t pair = 0;
  std::memcpy(&pair, pairs.words + at, sizeof pair);
  const __m512bh x = as_bf16(_mm512_set1_epi32(pair));
  const float *first = b + pairs.places[at] * (kColumns / 2),
              *second = b + pairs.places[at + 1] * (kColumns / 2);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const __m512i p = _mm512_loadu_si512(first + v * kVector), r = _mm512_loadu_si512(second + v * kVector);
    sum[2 * v] = _mm512_dpbf16_ps(sum[2 * v], x, as_bf16(_mm512_unpacklo_epi16(p, r)));
    sum[2 * v + 1] = _mm512_dpbf16_ps(sum[2 * v + 1], x, as_bf16(_mm512_unpackhi_epi16(p, r)));
  }
}

// For each of up to kTogether rows of a, the sum of its elements times b's rows at their places.
// Shapes  row i has the elements from first[i] up to first[i + 1]; b's rows have kColumns columns, of which `columns` are written.
SD_FOR_VECTORS void block_of_pairs(const PairedElements& pairs, const std::int64_t* first, std::int64_t rows,
                                   const float* b, std::int64_t columns, bool add, float* out,
                                   std::int64_t out_row) {
  __m512 sum[kTogether][2 * kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kTogether; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < 2 * kVectors; ++v) sum[i][v] = _mm512_setzero_ps();
  }
  std::int64_t together = rows == kTogether ? first[1] - first[0] : 0;
  for (int i = 1; i < kTogether && together > 0; ++i) together = std::min(together, first[i + 1] - first[i]);
  for (std::int64_t k = 0; k < together; k += 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kTogether; ++i) add_pair(pairs, first[i] + k, b, sum[i]);
  }
  const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23),
                high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
#pragma GCC unroll 8
  for (int i = 0; i < kTogether; ++i) {
    if (i >= rows) break;
    for (std::int64_t at = first[i] + together; at < first[i + 1]; at += 2) add_pair(pairs, at, b, sum[i]);
#pragma GCC unroll 8
    for (int v = 0; v < 2 * kVectors; ++v) {
      const __m512 of = _mm512_permutex2var_ps(sum[i][v & ~1], v % 2 == 0 ? low : high, sum[i][v | 1]);
      put_lanes(of, first_lanes(columns - v * kVector), add, out + i * out_row + v * kVector);
    }
  }
}

// Rows of floats as rows of kColumns bfloat16, zeros behind the floats.
SD_FOR_VECTORS void narrow_rows(std::int64_t rows, std::int64_t columns, const float* from,
                                std::int64_t from_row, float* to) {
  for (std::int64_t i = 0; i < rows; ++i, from += from_row) {
    for (std::int64_t at = 0; at < kColumns; at += kWords, to += kVector)
      _mm512_storeu_si512(to, narrow_floats(from + at, columns - at));
  }
}

// For the m rows of a in order, whose elements `find(i, list)` writes, the sums of block_of_pairs. `columns_from(left)` returns b's
// columns from `left` on.
// Shapes  at most `most` elements in a row.
template <class Find, class Columns>
void multiply_pairs(std::int64_t m, std::int64_t n, std::int64_t most, const Find& find,
                    const Columns& columns_from, bool add, float* out, std::int64_t out_row) {
  constexpr std::int64_t kRows = 256, kRoom = 24 * 1024;
  static_assert(kMost + 2 * kWords < kRoom);
  float values[kMost + 2 * kWords];
  std::uint16_t words[kRoom];
  std::int32_t places[kRoom];
  std::int64_t first[kRows + 1];
  for (std::int64_t top = 0; top < m;) {
    // As many rows as there is room for; then the same columns of b for all of them.
    std::int64_t rows = 0;
    first[0] = 0;
    for (; rows < kRows && top + rows < m && first[rows] + most + 2 * kWords <= kRoom; ++rows) {
      const PairedElements pairs{words + first[rows], places + first[rows]};
      const std::int64_t count = find(top + rows, Elements{values, pairs.places});
      first[rows + 1] = first[rows] + round_pairs(count, values, pairs);
    }
    for (std::int64_t left = 0; left < n; left += kColumns) {
      const float* b = columns_from(left);
      for (std::int64_t i = 0; i < rows; i += kTogether)
        block_of_pairs({words, places}, first + i, rows - i, b, n - left, add,
                       out + (top + i) * out_row + left, out_row);
    }
    top += rows;
  }
}

}  // namespace

void pack_rows(std::int64_t n, std::int64_t rows, const float* b, core::AlignedFloats& packed) {
  packed.resize(static_cast<std::size_t>(parts_of(n, kColumns) * rows * kColumns / 2));
  for (std::int64_t left = 0; left < n; left += kColumns)
    narrow_rows(rows, n - left, b + left, n, packed.data() + left * rows / 2);
}

void multiply_rows(std::int64_t m, std::int64_t n, std::int64_t p, const float* a, std::int64_t a_row,
                   const Placing* placing, std::int64_t b_rows, const float* packed, float* out,
                   std::int64_t out_row) {
  for (std::int64_t from = 0; from < p; from += kMost) {
    const std::int64_t depth = std::min(kMost, p - from);
    const auto find = [&](std::int64_t i, const Elements& list) {
      const float* row = a + i * a_row + from;
      if (placing == nullptr) return list.find(row, depth);
      return list.find_placed(row, depth, {placing->place + from, placing->sign + from, placing->rows});
    };
    const std::int64_t first_row = placing == nullptr ? from : 0;
    multiply_pairs(
        m, n, depth, find,
        [&](std::int64_t left) { return packed + left * b_rows / 2 + first_row * kColumns / 2; }, from > 0,
        out, out_row);
  }
}

void multiply_transposed_rows(std::int64_t m, std::int64_t n, std::int64_t p, const float* a,
                              std::int64_t a_row, const float* b, float* out, bool add) {
  constexpr std::int64_t kGroup = 16, kRows = 256;  // columns of a, rows of a and b
  alignas(64) float turned[kGroup * kRows], packed[kRows * kColumns / 2];
  for (std::int64_t from = 0; from < p; from += kRows) {
    const std::int64_t depth = std::min(kRows, p - from);
    const std::int64_t turned_row = parts_of(depth, core::kLanes) * core::kLanes;
    const auto find = [&](std::int64_t i, const Elements& list) {
      if (i % kGroup == 0)
        pack_transposed(std::min(kGroup, m - i), depth, a + from * a_row + i, {a, 1, a_row}, turned_row,
                        turned);
      return list.find(turned + i % kGroup * turned_row, depth);
    };
    const auto columns_from = [&](std::int64_t left) {
      narrow_rows(depth, n - left, b + from * n + left, n, packed);
      return static_cast<const float*>(packed);
    };
    multiply_pairs(m, n, depth, find, columns_from, add || from > 0, out, n);
  }
}

}  // namespace snake_ddp::kernels

#endif
