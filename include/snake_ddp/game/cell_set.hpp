// Sets of cells as bits, and how they spread over the torus: one step of a flood fill is a dozen instructions for the
// whole board.
#pragma once

#include <cstdint>

// Devices lack our vector types, so there is a plain version, which the host uses with SD_PLAIN_CELL_SETS, for tests.
#if defined(__CUDACC__) && !defined(SD_PLAIN_CELL_SETS)
#define SD_PLAIN_CELL_SETS
#endif
#if defined(__AVX512F__) && !defined(SD_PLAIN_CELL_SETS)
#include <immintrin.h>
#endif

#include "snake_ddp/base/host_device.hpp"
#include "snake_ddp/game/game.hpp"

namespace snake_ddp::game {

/// A set of cells: bit `column` of word `row`. Bits from kCols on and words from kRows on are 0.
struct CellSet {
#ifdef SD_PLAIN_CELL_SETS
  std::uint32_t row[kRows];
#else
  using Rows = std::uint32_t __attribute__((vector_size(64)));
  Rows row;
#endif

  SD_HD bool contains(int cell) const { return (row[row_of(cell)] >> column_of(cell) & 1U) != 0; }
  SD_HD void add(int cell) { row[row_of(cell)] |= 1U << column_of(cell); }
};

#ifdef SD_PLAIN_CELL_SETS

SD_HD inline CellSet operator|(const CellSet& a, const CellSet& b) {
  CellSet out;
  for (int r = 0; r < kRows; ++r) out.row[r] = a.row[r] | b.row[r];
  return out;
}
SD_HD inline CellSet operator&(const CellSet& a, const CellSet& b) {
  CellSet out;
  for (int r = 0; r < kRows; ++r) out.row[r] = a.row[r] & b.row[r];
  return out;
}
SD_HD inline CellSet only(int cell) {
  CellSet out{};
  out.add(cell);
  return out;
}
/// The cells of `a` that are not in `b`.
SD_HD inline CellSet without(const CellSet& a, const CellSet& b) {
  CellSet out;
  for (int r = 0; r < kRows; ++r) out.row[r] = a.row[r] & ~b.row[r];
  return out;
}
/// The cells of `a` and their neighbours.
SD_HD inline CellSet spread(const CellSet& a) {
  CellSet out;
  for (int r = 0; r < kRows; ++r) {
    const std::uint32_t x = a.row[r];
    const std::uint32_t beside =
        (x << 1 | x >> (kCols - 1) | x >> 1 | x << (kCols - 1)) & ((1U << kCols) - 1);
    out.row[r] = x | beside | a.row[r == 0 ? kRows - 1 : r - 1] | a.row[r == kRows - 1 ? 0 : r + 1];
  }
  return out;
}
SD_HD inline int count(const CellSet& a) {
  int sum = 0;
  for (int r = 0; r < kRows; ++r) {
#ifdef __CUDA_ARCH__
    sum += __popc(a.row[r]);
#else
    sum += __builtin_popcount(a.row[r]);
#endif
  }
  return sum;
}
/// Do they share a cell?
SD_HD inline bool meet(const CellSet& a, const CellSet& b) {
  std::uint32_t all = 0;
  for (int r = 0; r < kRows; ++r) all |= a.row[r] & b.row[r];
  return all != 0;
}
SD_HD inline int lowest_bit(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __ffs(static_cast<int>(bits)) - 1;
#else
  return __builtin_ctz(bits);
#endif
}

#else

inline CellSet operator|(const CellSet& a, const CellSet& b) { return {a.row | b.row}; }
inline CellSet operator&(const CellSet& a, const CellSet& b) { return {a.row & b.row}; }
inline CellSet without(const CellSet& a, const CellSet& b) { return {a.row & ~b.row}; }

// No single word is written: reading the whole set right after that would stall.
inline CellSet only(int cell) {
  constexpr CellSet::Rows kRow = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const auto there = kRow == static_cast<std::uint32_t>(row_of(cell));
  return {reinterpret_cast<const CellSet::Rows&>(there) & (1U << column_of(cell))};
}

inline CellSet spread(const CellSet& a) {
  const CellSet::Rows x = a.row;
  const CellSet::Rows up =
      __builtin_shufflevector(x, x, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 10, 11, 12, 13, 14, 15);
  const CellSet::Rows down =
      __builtin_shufflevector(x, x, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15);
  const CellSet::Rows beside = (x << 1 | x >> (kCols - 1) | x >> 1 | x << (kCols - 1)) & ((1U << kCols) - 1);
  return {x | beside | up | down};
}

inline int count(const CellSet& a) {
  CellSet::Rows x = a.row;  // pairs of bits, then groups of four, of eight, all
  x = x - ((x >> 1) & 0x55555555U);
  x = (x & 0x33333333U) + ((x >> 2) & 0x33333333U);
  x = (x + (x >> 4)) & 0x0F0F0F0FU;
  // Ten rows of three bytes of at most 8: a byte holds their sum.
  using Half = std::uint32_t __attribute__((vector_size(32)));
  const Half half = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                    __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  using Quarter = std::uint32_t __attribute__((vector_size(16)));
  const Quarter quarter =
      __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
  const std::uint32_t sum = quarter[0] + quarter[1] + quarter[2] + quarter[3];
  return static_cast<int>((sum * 0x01010101U) >> 24);
}

inline bool meet(const CellSet& a, const CellSet& b) {
#ifdef __AVX512F__
  __m512i x, y;
  memcpy(&x, &a.row, sizeof x);
  memcpy(&y, &b.row, sizeof y);
  return _mm512_test_epi32_mask(x, y) != 0;
#else
  const CellSet::Rows x = a.row & b.row;
  using Half = std::uint32_t __attribute__((vector_size(32)));
  const Half half = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) |
                    __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  std::uint64_t words[4];
  memcpy(words, &half, sizeof words);
  return (words[0] | words[1] | words[2] | words[3]) != 0;
#endif
}
inline int lowest_bit(std::uint32_t bits) { return __builtin_ctz(bits); }

#endif

}  // namespace snake_ddp::game
