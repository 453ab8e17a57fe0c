// Activations in plain arithmetic, so that the compiler vectorises the loops around them. For files that are written for
// fused multiply-adds.
#pragma once

#include <bit>
#include <cstdint>

namespace snake_ddp::nets {

/// exp(x) - 1 for x up to 60 (x is clamped to that), within 2 units in the last place: x = n ln 2 + r with
/// |r| <= ln 2 / 2, and the Taylor polynomial of exp(r) - 1.
inline float expm1_of(float x) {
  x = x < -60.0F ? -60.0F : x;
  x = x > 60.0F ? 60.0F : x;
  // 1.5 * 2^23: adding it rounds to a whole number, which is then in the lowest bits.
  constexpr float kRounder = 12582912.0F;
  const float shifted = x * 1.44269504F + kRounder, n = shifted - kRounder;
  const float r = (x - n * 0.693145752F) - n * 1.42860677e-6F;  // ln 2 in two parts
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r * r + r;
  const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127U) << 23);
  return power * p + (power - 1.0F);
}
inline float sigmoid_of(float x) { return 1.0F / (expm1_of(-x) + 2.0F); }
inline float tanh_of(float x) {
  const float e = expm1_of(2.0F * x);
  return e / (e + 2.0F);
}
inline float elu_of(float x) { return x > 0.0F ? x : expm1_of(x); }

}  // namespace snake_ddp::nets
