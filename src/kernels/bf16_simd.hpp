// What products of bfloat16 by vectors and by tiles share. Functions with these instructions are compiled whatever
// SNAKE_DDP_MARCH is, and called only where the processor has them.
#pragma once

#if defined(__x86_64__) && defined(__linux__)
#define SD_BF16
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#define SD_FOR_VECTORS __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace snake_ddp::kernels {

// Floats of a vector, or pairs of bfloat16.
constexpr std::int64_t kVector = 16;

// Numbers first, first + 16: those of `x`, then of `y`, in bfloat16.
SD_FOR_VECTORS inline __m512i narrow(__m512 x, __m512 y) {
  const auto both = _mm512_cvtne2ps_pbh(y, x);
  __m512i bits;
  std::memcpy(&bits, &both, sizeof bits);
  return bits;
}

// Lane i has the pair x[i], y[i].
SD_FOR_VECTORS inline __m512i pairs(__m512 x, __m512 y) {
  alignas(64) static constexpr std::uint16_t kPlaces[] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                          21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                          11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kPlaces), narrow(x, y));
}

SD_FOR_VECTORS inline __mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>(count >= kVector ? 0xFFFF : count <= 0 ? 0 : (1 << count) - 1);
}

// Floats from[0] to from[31] in bfloat16, of which the first `count` are read; zeros for the others.
SD_FOR_VECTORS inline __m512i narrow_floats(const float* from, std::int64_t count) {
  return narrow(_mm512_maskz_loadu_ps(first_lanes(count), from),
                _mm512_maskz_loadu_ps(first_lanes(count - kVector), from + kVector));
}

// Pairs of rows 0 and 1 of a matrix, of which only the first `rows` are read, in the columns of `there`; zeros for the others.
SD_FOR_VECTORS inline __m512i pairs_of_rows(const float* from, std::int64_t row, std::int64_t rows,
                                            __mmask16 there) {
  return pairs(rows > 0 ? _mm512_maskz_loadu_ps(there, from) : _mm512_setzero_ps(),
               rows > 1 ? _mm512_maskz_loadu_ps(there, from + row) : _mm512_setzero_ps());
}

SD_FOR_VECTORS inline __m512bh as_bf16(__m512i bits) {
  __m512bh same;
  std::memcpy(&same, &bits, sizeof same);
  return same;
}

// The first lanes of `sums` to `to`, or with `add` onto what is there.
SD_FOR_VECTORS inline void put_lanes(__m512 sums, __mmask16 there, bool add, float* to) {
  const __m512 before = add ? _mm512_maskz_loadu_ps(there, to) : _mm512_setzero_ps();
  _mm512_mask_storeu_ps(to, there, _mm512_add_ps(before, sums));
}

// Rounded up.
inline std::int64_t parts_of(std::int64_t numbers, std::int64_t in_a_part) {
  return (numbers + in_a_part - 1) / in_a_part;
}

}  // namespace snake_ddp::kernels

#endif
