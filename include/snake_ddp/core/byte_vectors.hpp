// Bytes in vectors, for x86-64 with AVX2 or AVX-512.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "snake_ddp/core/simd.hpp"

namespace snake_ddp::core {

/// kLanes bytes as numbers. GCC's own conversion takes them one by one.
inline IntVector widened(const std::uint8_t* from) {
#if defined(__AVX512F__)
  // With a mask: GCC 12 takes the form without one for a use of something uninitialized.
  return reinterpret_cast<IntVector>(
      _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#else
  return reinterpret_cast<IntVector>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#endif
}

/// Byte j of word i becomes byte i of word j. A word's byte 0 is its first one in memory.
inline void transpose_bytes(std::uint64_t (&word)[8]) {
  using Bytes = std::uint8_t __attribute__((vector_size(16)));
  using Pairs = std::uint16_t __attribute__((vector_size(16)));
  using Fours = std::uint32_t __attribute__((vector_size(16)));
  Pairs two[4];  // words 2k and 2k + 1: two bytes of each column
  for (int k = 0; k < 4; ++k) {
    Bytes words;
    std::memcpy(&words, word + static_cast<std::ptrdiff_t>(2) * k, sizeof words);
    two[k] = reinterpret_cast<Pairs>(
        picked<Bytes, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15>(words, words));
  }
  const auto write = [&](int column, Pairs upper, Pairs lower) {  // four bytes of each of four columns
    const auto a = reinterpret_cast<Fours>(upper), b = reinterpret_cast<Fours>(lower);
    const Fours all[] = {picked<Fours, 0, 4, 1, 5>(a, b), picked<Fours, 2, 6, 3, 7>(a, b)};
    std::memcpy(word + column, all, sizeof all);
  };
  write(0, picked<Pairs, 0, 8, 1, 9, 2, 10, 3, 11>(two[0], two[1]),
        picked<Pairs, 0, 8, 1, 9, 2, 10, 3, 11>(two[2], two[3]));
  write(4, picked<Pairs, 4, 12, 5, 13, 6, 14, 7, 15>(two[0], two[1]),
        picked<Pairs, 4, 12, 5, 13, 6, 14, 7, 15>(two[2], two[3]));
}

}  // namespace snake_ddp::core
