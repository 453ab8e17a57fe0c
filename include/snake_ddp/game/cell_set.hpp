// Sets of cells as bits, and how they spread over the torus: one step of a flood fill is two dozen instructions for the
// whole board. There is one form for any compiler and for devices, and one for AVX2, which AVX-512 uses too.
#pragma once

#include <cstdint>

#if defined(__AVX2__) && !defined(__CUDACC__) && !defined(SD_PLAIN_FORMS)  // the macro is for tests
#define SD_AVX2_CELL_SETS
#include <immintrin.h>
#endif

#include "snake_ddp/base/host_device.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

/// A word holds three rows of the board, the last word only row 9.
inline constexpr int kSetWords = 4, kWordCells = 3 * kCols;
static_assert(kRows == 10 && kWordCells <= 64);

/// A set of cells: bit `cell % 60` of word `cell / 60`. All other bits are 0.
struct CellSet {
#ifdef SD_AVX2_CELL_SETS
  using Words = std::uint64_t __attribute__((vector_size(32)));
  Words word;
#else
  std::uint64_t word[kSetWords];
#endif

  SD_HD bool contains(int cell) const {
    const auto c = static_cast<unsigned>(cell);
    return (word[c / kWordCells] >> (c % kWordCells) & 1U) != 0;
  }
  SD_HD void add(int cell) {
    const auto c = static_cast<unsigned>(cell);
    word[c / kWordCells] |= std::uint64_t{1} << (c % kWordCells);
  }
};

namespace cell_sets {
// Of a word: all cells, those of its first row, the first and the last column.
inline constexpr std::uint64_t kAll = (std::uint64_t{1} << kWordCells) - 1,
                               kRow = (std::uint64_t{1} << kCols) - 1,
                               kFirst = 1 | std::uint64_t{1} << kCols | std::uint64_t{1} << 2 * kCols,
                               kLast = kFirst << (kCols - 1);

/// The cells beside those of a word, or of four words, in the same row; and bits after the third row.
template <class Word>
SD_HD inline Word beside(Word x) {
  return (x << 1 & ~kFirst) | (x >> 1 & ~kLast) | (x >> (kCols - 1) & kFirst) | (x << (kCols - 1) & kLast);
}
}  // namespace cell_sets

#ifdef SD_AVX2_CELL_SETS

inline CellSet operator|(const CellSet& a, const CellSet& b) { return {a.word | b.word}; }
inline CellSet operator&(const CellSet& a, const CellSet& b) { return {a.word & b.word}; }
inline CellSet without(const CellSet& a, const CellSet& b) { return {a.word & ~b.word}; }

// No single word is written: reading the whole set right after that would stall.
inline CellSet only(int cell) {
  // A shift by 64 or more, as by a negative number, gives 0.
  const __m256i from = _mm256_sub_epi64(_mm256_set1_epi64x(cell),
                                        _mm256_setr_epi64x(0, kWordCells, 2 * kWordCells, 3 * kWordCells));
  return {reinterpret_cast<CellSet::Words>(_mm256_sllv_epi64(_mm256_set1_epi64x(1), from)) & cell_sets::kAll};
}

inline CellSet spread(const CellSet& a) {
  using Words = CellSet::Words;
  const Words x = a.word;
  const auto next = reinterpret_cast<Words>(_mm256_permute4x64_epi64(reinterpret_cast<__m256i>(x), 0x39));
  const auto before = reinterpret_cast<Words>(_mm256_permute4x64_epi64(reinterpret_cast<__m256i>(x), 0x93));
  // The row below a word's last row is the next word's first; the last word has only one row.
  constexpr Words kBelow = {2 * kCols, 2 * kCols, 2 * kCols, 0},
                  kAbove = {0, 2 * kCols, 2 * kCols, 2 * kCols};
  constexpr Words kCellsOfWord = {cell_sets::kAll, cell_sets::kAll, cell_sets::kAll, cell_sets::kRow};
  const Words rows = x >> kCols | x << kCols | next << kBelow | before >> kAbove;
  return {x | ((rows | cell_sets::beside(x)) & kCellsOfWord)};
}

inline int count(const CellSet& a) {
  int sum = 0;
  for (int k = 0; k < kSetWords; ++k) sum += __builtin_popcountll(a.word[k]);
  return sum;
}

inline bool meet(const CellSet& a, const CellSet& b) {
  return _mm256_testz_si256(reinterpret_cast<__m256i>(a.word), reinterpret_cast<__m256i>(b.word)) == 0;
}

#else

SD_HD inline CellSet operator|(const CellSet& a, const CellSet& b) {
  CellSet out;
  for (int k = 0; k < kSetWords; ++k) out.word[k] = a.word[k] | b.word[k];
  return out;
}
SD_HD inline CellSet operator&(const CellSet& a, const CellSet& b) {
  CellSet out;
  for (int k = 0; k < kSetWords; ++k) out.word[k] = a.word[k] & b.word[k];
  return out;
}
/// The cells of `a` that are not in `b`.
SD_HD inline CellSet without(const CellSet& a, const CellSet& b) {
  CellSet out;
  for (int k = 0; k < kSetWords; ++k) out.word[k] = a.word[k] & ~b.word[k];
  return out;
}
SD_HD inline CellSet only(int cell) {
  CellSet out{};
  out.add(cell);
  return out;
}
/// The cells of `a` and their neighbours.
SD_HD inline CellSet spread(const CellSet& a) {
  CellSet out;
  const auto& x = a.word;
  const std::uint64_t below[kSetWords] = {x[1] << 2 * kCols, x[2] << 2 * kCols, x[3] << 2 * kCols, x[0]};
  const std::uint64_t above[kSetWords] = {x[3], x[0] >> 2 * kCols, x[1] >> 2 * kCols, x[2] >> 2 * kCols};
  for (int k = 0; k < kSetWords; ++k) {
    const std::uint64_t rows = x[k] >> kCols | x[k] << kCols | below[k] | above[k];
    const std::uint64_t cells = k == kSetWords - 1 ? cell_sets::kRow : cell_sets::kAll;
    out.word[k] = x[k] | ((rows | cell_sets::beside(x[k])) & cells);
  }
  return out;
}
SD_HD inline int count(const CellSet& a) {
  int sum = 0;
  for (int k = 0; k < kSetWords; ++k) sum += base::count_bits(a.word[k]);
  return sum;
}
/// Do they share a cell?
SD_HD inline bool meet(const CellSet& a, const CellSet& b) {
  std::uint64_t all = 0;
  for (int k = 0; k < kSetWords; ++k) all |= a.word[k] & b.word[k];
  return all != 0;
}

#endif

}  // namespace snake_ddp::game
