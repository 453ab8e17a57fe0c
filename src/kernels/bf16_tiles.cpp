#include "bf16_ways.hpp"

#ifdef SD_BF16

#include <algorithm>

#define SD_FOR_TILES __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16")))

namespace snake_ddp::kernels {
namespace {

// A tile has 16 rows of 64 bytes: 16 sums, or 32 factors. Factors of the right matrix are in pairs: row k of a tile has
// elements 2 k and 2 k + 1 of 16 columns.
constexpr std::int64_t kSide = 16, kFactors = 32, kTileFloats = kSide * kSide;

SD_FOR_TILES inline void transpose_tile(__m512i* rows) {
  __m512i t[kSide];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      rows[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + j + 2]);
      rows[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + j + 2]);
    }
  }
  // Now row 4 g + c has, in its four blocks of 128 bits, columns c, c + 4, c + 8, c + 12 of rows 4 g to 4 g + 3.
  for (int c = 0; c < 4; ++c) {
    const __m512i low_01 = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0x88),
                  odd_01 = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0xDD),
                  low_23 = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0x88),
                  odd_23 = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0xDD);
    t[c] = _mm512_shuffle_i32x4(low_01, low_23, 0x88);
    t[c + 8] = _mm512_shuffle_i32x4(low_01, low_23, 0xDD);
    t[c + 4] = _mm512_shuffle_i32x4(odd_01, odd_23, 0x88);
    t[c + 12] = _mm512_shuffle_i32x4(odd_01, odd_23, 0xDD);
  }
  std::memcpy(rows, t, sizeof t);
}

// Rows `top` to top + 15 of a and elements `first` to first + 31 of each, as a tile; zeros behind the matrix.
SD_FOR_TILES inline void pack_left(std::int64_t m, std::int64_t p, const MatrixView& a, std::int64_t top,
                                   std::int64_t first, float* tile) {
  if (a.column == 1) {
    for (std::int64_t i = 0; i < kSide; ++i)
      _mm512_store_si512(tile + i * kSide, top + i < m
                                               ? narrow_floats(a.data + (top + i) * a.row + first, p - first)
                                               : _mm512_setzero_si512());
    return;
  }
  const __mmask16 there = first_lanes(m - top);
  __m512i columns[kSide];
  for (std::int64_t k = 0; k < kSide; ++k) {
    const std::int64_t at = first + 2 * k;
    columns[k] = pairs_of_rows(a.data + top + at * a.column, a.column, p - at, there);
  }
  transpose_tile(columns);
  std::memcpy(tile, columns, sizeof columns);
}

// Loads elements `first` to first + 31 of the columns `left` to left + 15 of b.
SD_FOR_TILES inline void pack_right(std::int64_t n, std::int64_t p, const MatrixView& b, std::int64_t first,
                                    std::int64_t left, float* tile) {
  const __mmask16 there = first_lanes(n - left);
  for (std::int64_t k = 0; k < kSide; ++k) {
    const std::int64_t at = first + 2 * k;
    _mm512_store_si512(tile + k * kSide, pairs_of_rows(b.data + at * b.row + left, b.row, p - at, there));
  }
}

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, unused[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// What a tile of sums has inside of a matrix of which `height` rows and `width` columns are left.
SD_FOR_TILES inline void put(const float* sums, std::int64_t height, std::int64_t width, bool add, float* out,
                             std::int64_t out_row) {
  const __mmask16 there = first_lanes(width);
  for (std::int64_t i = 0; i < std::min(height, kSide); ++i)
    put_lanes(_mm512_load_ps(sums + i * kSide), there, add, out + i * out_row);
}

// Two rows of tiles times two columns of tiles; the second ones repeat the first where the matrices end.
SD_FOR_TILES void four_tiles(std::int64_t depth, const float* upper, const float* lower, const float* left,
                             const float* right, float* sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t k = 0; k < depth; ++k) {
    _tile_loadd(4, upper + k * kTileFloats, 64);
    _tile_loadd(6, left + k * kTileFloats, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, right + k * kTileFloats, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, lower + k * kTileFloats, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + kTileFloats, 64);
  _tile_stored(2, sums + 2 * kTileFloats, 64);
  _tile_stored(3, sums + 3 * kTileFloats, 64);
}

}  // namespace

SD_FOR_TILES void pack_tiles(std::int64_t n, std::int64_t p, const MatrixView& b,
                             core::AlignedFloats& tiles) {
  tiles.resize(static_cast<std::size_t>(parts_of(n, kSide) * parts_of(p, kFactors) * kTileFloats));
  float* tile = tiles.data();
  for (std::int64_t left = 0; left < n; left += kSide) {
    for (std::int64_t k = 0; k < p; k += kFactors, tile += kTileFloats) pack_right(n, p, b, k, left, tile);
  }
}

SD_FOR_TILES void multiply_by_tiles(std::int64_t m, std::int64_t n, std::int64_t p, const MatrixView& a,
                                    const float* right_tiles, core::AlignedFloats& scratch, float* out,
                                    std::int64_t out_row, bool add) {
  alignas(64) float sums[4 * kTileFloats];
  const std::int64_t depth = parts_of(p, kFactors), row_floats = depth * kTileFloats;
  const auto floats = static_cast<std::size_t>(parts_of(m, kSide) * row_floats);
  if (scratch.size() < floats) scratch.resize(floats);
  float* const left_tiles = scratch.data();
  for (std::int64_t top = 0; top < m; top += kSide) {
    for (std::int64_t k = 0; k < depth; ++k)
      pack_left(m, p, a, top, k * kFactors, left_tiles + top / kSide * row_floats + k * kTileFloats);
  }
  const TileShapes shapes;
  _tile_loadconfig(&shapes);
  for (std::int64_t left = 0; left < n; left += 2 * kSide) {
    const float* first = right_tiles + left / kSide * row_floats;
    const float* second = left + kSide < n ? first + row_floats : first;
    for (std::int64_t top = 0; top < m; top += 2 * kSide) {
      const float* upper = left_tiles + top / kSide * row_floats;
      four_tiles(depth, upper, top + kSide < m ? upper + row_floats : upper, first, second, sums);
      for (int tile = 0; tile < 4; ++tile) {
        const std::int64_t row = top + tile / 2 * kSide, column = left + tile % 2 * kSide;
        if (row < m && column < n)
          put(sums + tile * kTileFloats, m - row, n - column, add, out + row * out_row + column, out_row);
      }
    }
  }
  _tile_release();
}

}  // namespace snake_ddp::kernels

#endif
