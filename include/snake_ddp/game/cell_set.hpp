// Sets of cells as bits, and how they spread over the torus: one step of a flood fill is two dozen instructions for the
// whole board. There is one form for any compiler and for devices, and one for AVX2, which AVX-512 uses too.
#pragma once

#include <cstdint>

#if defined(__AVX2__) && !defined(__CUDACC__) && !defined(SD_PLAIN_FORMS)  // the macro is for tests
#define SD_AVX2_CELL_SETS
#include <immintrin.h>

#include "snake_ddp/core/simd.hpp"
#endif

#include "snake_ddp/core/host_device.hpp"
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

namespace cell_sets {
// Of one set or of two, in `x`. The row below a word's last row is the first one of the word in `next`; the last word has only
// one row. `below`, `above`: by how much the words in `next` and `before` are shifted. `cells`: all cells of each word.
template <class Words>
inline Words spread(Words x, Words next, Words before, Words below, Words above, Words cells) {
  const Words rows = x >> kCols | x << kCols | next << below | before >> above;
  return x | ((rows | beside(x)) & cells);
}
inline constexpr std::uint64_t kTwoRows = 2 * kCols;
}  // namespace cell_sets

inline CellSet spread(const CellSet& a) {
  using cell_sets::kAll, cell_sets::kRow, cell_sets::kTwoRows;
  using Words = CellSet::Words;
  const auto x = reinterpret_cast<__m256i>(a.word);
  return {cell_sets::spread(a.word, reinterpret_cast<Words>(_mm256_permute4x64_epi64(x, 0x39)),
                            reinterpret_cast<Words>(_mm256_permute4x64_epi64(x, 0x93)),
                            Words{kTwoRows, kTwoRows, kTwoRows, 0}, Words{0, kTwoRows, kTwoRows, kTwoRows},
                            Words{kAll, kAll, kAll, kRow})};
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
  for (int k = 0; k < kSetWords; ++k) sum += core::count_bits(a.word[k]);
  return sum;
}
/// Do they share a cell?
SD_HD inline bool meet(const CellSet& a, const CellSet& b) {
  std::uint64_t all = 0;
  for (int k = 0; k < kSetWords; ++k) all |= a.word[k] & b.word[k];
  return all != 0;
}

#endif

#if defined(SD_AVX2_CELL_SETS) && defined(__AVX512F__)

/// Two sets in one vector, for operations on both.
struct TwoCellSets {
  using Words = std::uint64_t __attribute__((vector_size(64)));
  Words word;

  static TwoCellSets of(const CellSet& first, const CellSet& second) {
    return {core::picked<Words, 0, 1, 2, 3, 4, 5, 6, 7>(first.word, second.word)};
  }
  [[nodiscard]] CellSet first() const { return {core::picked<CellSet::Words, 0, 1, 2, 3>(word, word)}; }
  [[nodiscard]] CellSet second() const { return {core::picked<CellSet::Words, 4, 5, 6, 7>(word, word)}; }
};

inline TwoCellSets operator|(const TwoCellSets& a, const TwoCellSets& b) { return {a.word | b.word}; }
inline TwoCellSets without(const TwoCellSets& a, const TwoCellSets& b) { return {a.word & ~b.word}; }
inline TwoCellSets spread(const TwoCellSets& a) {
  using cell_sets::kAll, cell_sets::kRow, cell_sets::kTwoRows;
  using Words = TwoCellSets::Words;
  const auto x = reinterpret_cast<__m512i>(a.word);
  return {cell_sets::spread(a.word, reinterpret_cast<Words>(_mm512_maskz_permutex_epi64(0xff, x, 0x39)),
                            reinterpret_cast<Words>(_mm512_maskz_permutex_epi64(0xff, x, 0x93)),
                            Words{kTwoRows, kTwoRows, kTwoRows, 0, kTwoRows, kTwoRows, kTwoRows, 0},
                            Words{0, kTwoRows, kTwoRows, kTwoRows, 0, kTwoRows, kTwoRows, kTwoRows},
                            Words{kAll, kAll, kAll, kRow, kAll, kAll, kAll, kRow})};
}
/// Bit 0: do the first ones share a cell? Bit 1: the second ones.
inline unsigned meet(const TwoCellSets& a, const TwoCellSets& b) {
  const unsigned words =
      _mm512_test_epi64_mask(reinterpret_cast<__m512i>(a.word), reinterpret_cast<__m512i>(b.word));
  return static_cast<unsigned>((words & 15U) != 0) | static_cast<unsigned>(words > 15U) << 1;
}

#else

/// Two sets, for operations on both.
struct TwoCellSets {
  CellSet sets[2];

  SD_HD static TwoCellSets of(const CellSet& first, const CellSet& second) { return {{first, second}}; }
  [[nodiscard]] SD_HD const CellSet& first() const { return sets[0]; }
  [[nodiscard]] SD_HD const CellSet& second() const { return sets[1]; }
};

SD_HD inline TwoCellSets operator|(const TwoCellSets& a, const TwoCellSets& b) {
  return TwoCellSets::of(a.sets[0] | b.sets[0], a.sets[1] | b.sets[1]);
}
SD_HD inline TwoCellSets without(const TwoCellSets& a, const TwoCellSets& b) {
  return TwoCellSets::of(without(a.sets[0], b.sets[0]), without(a.sets[1], b.sets[1]));
}
SD_HD inline TwoCellSets spread(const TwoCellSets& a) {
  return TwoCellSets::of(spread(a.sets[0]), spread(a.sets[1]));
}
SD_HD inline unsigned meet(const TwoCellSets& a, const TwoCellSets& b) {
  return static_cast<unsigned>(meet(a.sets[0], b.sets[0])) | static_cast<unsigned>(meet(a.sets[1], b.sets[1]))
                                                                 << 1;
}

#endif

}  // namespace snake_ddp::game
