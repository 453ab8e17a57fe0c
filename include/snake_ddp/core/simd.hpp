// A vector of floats as wide as the target machine's, in the compiler's own vector types.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace snake_ddp::core {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
using IntVector = std::int32_t __attribute__((vector_size(kLanes * sizeof(float))));
using Vector4 = float __attribute__((vector_size(16)));

inline Vector load(const float* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline void store(float* to, Vector v) { std::memcpy(to, &v, sizeof v); }
inline Vector all_lanes(float x) { return Vector{} + x; }

/// A NaN in `a` stays, so max(x, 0) keeps a NaN, as LibTorch's ReLU does.
inline Vector max(Vector a, Vector b) { return b > a ? b : a; }
inline Vector min(Vector a, Vector b) { return b < a ? b : a; }

/// The lanes `kAt` of `a` and `b` together.
template <class Out, int... kAt, class In>
inline Out picked(In a, In b) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(a, b, kAt...);
#else  // GCC before 12
  constexpr int kSize = sizeof(In) / sizeof(a[0]);
  return Out{(kAt < kSize ? a[kAt % kSize] : b[kAt % kSize])...};
#endif
}

/// Lane i holds the sum of the lanes i, i + 4, i + 8, ...
inline Vector4 fold_to_four(Vector v) {
#if defined(__AVX512F__)
  using Vector8 = float __attribute__((vector_size(32)));
  const Vector8 half =
      picked<Vector8, 0, 1, 2, 3, 4, 5, 6, 7>(v, v) + picked<Vector8, 8, 9, 10, 11, 12, 13, 14, 15>(v, v);
  return picked<Vector4, 0, 1, 2, 3>(half, half) + picked<Vector4, 4, 5, 6, 7>(half, half);
#elif defined(__AVX__)
  return picked<Vector4, 0, 1, 2, 3>(v, v) + picked<Vector4, 4, 5, 6, 7>(v, v);
#else
  return v;
#endif
}

/// The sum of all lanes, added in pairs.
inline float sum_of(Vector v) {
  const Vector4 four = fold_to_four(v);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

/// The sums of four vectors.
inline Vector4 sums_of(Vector a, Vector b, Vector c, Vector d) {
  const Vector4 wa = fold_to_four(a), wb = fold_to_four(b), wc = fold_to_four(c), wd = fold_to_four(d);
  const Vector4 ab = picked<Vector4, 0, 1, 4, 5>(wa, wb) + picked<Vector4, 2, 3, 6, 7>(wa, wb);
  const Vector4 cd = picked<Vector4, 0, 1, 4, 5>(wc, wd) + picked<Vector4, 2, 3, 6, 7>(wc, wd);
  return picked<Vector4, 0, 2, 4, 6>(ab, cd) + picked<Vector4, 1, 3, 5, 7>(ab, cd);
}

/// e^x to about two units in the last place; inputs are clamped to +-87.
inline Vector exp_of(Vector x) {
  x = min(max(x, all_lanes(-87.0F)), all_lanes(87.0F));
  // x = n ln 2 + r with |r| <= ln 2 / 2; adding and taking away 1.5 * 2^23 rounds to the nearest whole number.
  const Vector kRound = all_lanes(12582912.0F);
  Vector n = x * all_lanes(1.44269504F) + kRound;
  // -fassociative-math would remove this rounding; the files that use exp_of are compiled without it.
  n = n - kRound;
  const Vector r = (x - n * all_lanes(0.693359375F)) - n * all_lanes(-2.12194440e-4F);
  // Taylor's series to the sixth power leaves an error of 1e-8 at the ends.
  Vector sum = all_lanes(1.0F / 720);
  for (const float c : {1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F}) sum = sum * r + all_lanes(c);
  const IntVector power = (__builtin_convertvector(n, IntVector) + 127) << 23;
  Vector scale;
  std::memcpy(&scale, &power, sizeof scale);
  return sum * scale;
}

}  // namespace snake_ddp::core
