// The elements of a row that are not 0, for products that skip the others.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "snake_ddp/core/simd.hpp"
#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::kernels {

#if defined(__AVX__) && !defined(__AVX512F__)
constexpr std::int64_t kBits = 64;
// Bit k: row[k] is not 0. Shapes  row [kBits].
inline std::uint64_t others_of(const float* row) {
  std::uint64_t others = 0;
  for (std::int64_t k = 0; k < kBits; k += core::kLanes) {
    const __m256 other = _mm256_cmp_ps(_mm256_loadu_ps(row + k), _mm256_setzero_ps(), _CMP_NEQ_UQ);
    others |= static_cast<std::uint64_t>(_mm256_movemask_ps(other)) << k;
  }
  return others;
}
#endif

// The elements of a row that are not 0, in order, and their places in it. Both arrays have room for a vector more.
struct Elements {
  float* values;
  std::int32_t* places;

  // Writes those of a row there. Returns their number.
  [[nodiscard]] std::int64_t find(const float* row, std::int64_t size) const {
    std::int64_t count = 0, k = 0;
#if defined(__AVX512F__)
    __m512i at = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (; k + core::kLanes <= size;
         k += core::kLanes, at = _mm512_add_epi32(at, _mm512_set1_epi32(core::kLanes))) {
      const __m512 x = _mm512_loadu_ps(row + k);
      const __mmask16 other = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_UQ);
      _mm512_storeu_ps(values + count, _mm512_maskz_compress_ps(other, x));
      _mm512_storeu_si512(places + count, _mm512_maskz_compress_epi32(other, at));
      count += std::popcount(static_cast<unsigned>(other));
    }
#elif defined(__AVX__)
    for (; k + kBits <= size; k += kBits) {
      for (std::uint64_t others = others_of(row + k); others != 0; others &= others - 1, ++count) {
        const std::int64_t at = k + std::countr_zero(others);
        values[count] = row[at];
        places[count] = static_cast<std::int32_t>(at);
      }
    }
#endif
    for (; k < size; ++k) {
      values[count] = row[k];
      places[count] = static_cast<std::int32_t>(k);
      count += (std::bit_cast<std::uint32_t>(row[k]) << 1) != 0 ? 1 : 0;
    }
    return count;
  }

  // Elements at other places and with other signs.
  [[nodiscard]] std::int64_t find_placed(const float* row, std::int64_t size, const Placing& placing) const {
    std::int64_t count = 0, k = 0;
#if defined(__AVX512F__)
    for (; k + core::kLanes <= size; k += core::kLanes) {
      const __m512 x = _mm512_loadu_ps(row + k);
      const __m512i at = _mm512_loadu_si512(placing.place + k);
      const __mmask16 other = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_UQ) &
                              _mm512_cmpge_epi32_mask(at, _mm512_setzero_si512());
      _mm512_storeu_ps(values + count,
                       _mm512_maskz_compress_ps(other, x * _mm512_loadu_ps(placing.sign + k)));
      _mm512_storeu_si512(places + count, _mm512_maskz_compress_epi32(other, at));
      count += std::popcount(static_cast<unsigned>(other));
    }
#elif defined(__AVX__)
    for (; k + kBits <= size; k += kBits) {
      for (std::uint64_t others = others_of(row + k); others != 0; others &= others - 1) {
        const std::int64_t at = k + std::countr_zero(others);
        values[count] = row[at] * placing.sign[at];
        places[count] = placing.place[at];
        count += places[count] >= 0 ? 1 : 0;
      }
    }
#endif
    for (; k < size; ++k) {
      values[count] = row[k] * placing.sign[k];
      places[count] = placing.place[k];
      count += (std::bit_cast<std::uint32_t>(row[k]) << 1) != 0 && placing.place[k] >= 0 ? 1 : 0;
    }
    return count;
  }
};

}  // namespace snake_ddp::kernels
