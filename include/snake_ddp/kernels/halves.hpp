// A symmetric network with half of the multiplications. If left and right are exchanged, an input x_f becomes s x_g, and
// a layer's output [z_1 | z_2] becomes [z_2 | z_1]. So the sum x_f + s x_g acts only on z_1 + z_2, and the difference
// x_f - s x_g only on z_1 - z_2: two products with half as many outputs each.
#pragma once

#include <cstdint>
#include <vector>

#include "snake_ddp/core/mirror_image.hpp"

namespace snake_ddp::kernels {

/// A layer's inputs as sums and differences. Input k is a term of sum or difference `place[k]`, with a sign, or of none
/// if that is negative: an input that is its own image has no difference, and one that is its own image's negative no
/// sum.
struct Halves {
  struct Part {
    std::vector<std::int32_t> first;  // of each sum or difference: the term without a sign
    std::vector<std::int32_t> place;  // by input
    std::vector<float> sign;          // by input
  };
  Part sums, differences;

  [[nodiscard]] std::int64_t count() const {
    return static_cast<std::int64_t>(sums.first.size() + differences.first.size());
  }
};
Halves halves_of(const std::vector<core::MirrorImage>& inputs);

/// Hidden units: number i is the image of i + hidden / 2.
/// Throws  Bug for an odd number.
std::vector<core::MirrorImage> mirrored_units(std::int64_t hidden);

/// The weights of sums, then of differences: (p + r) / 2 and (p - r) / 2 of rows [p | r]. With them the outputs are half
/// the sum and half the difference of z_1 and z_2.
/// Shapes  weight [in, 2 half], folded [count, half].
void fold_weight(const Halves& of, std::int64_t half, const float* weight, float* folded);

/// The gradient of the weight, averaged with its image, from the products of the units' sums and differences with those
/// of the gradients.
/// Shapes  folded [2, half, half], weight [2 half, 2 half].
void unfold_gradient(std::int64_t half, const float* folded, float* weight);

/// Rows [a | b] as [a + b | a - b]. May be in place.
void exchange_halves(std::int64_t rows, std::int64_t half, const float* from, float* out);

/// A first layer's product, for inputs most of which are 0, as half the sum and half the difference of its halves: its
/// rows [z_1 | z_2] are what exchange_halves makes of the result.
/// Shapes  from rows `from_row` apart, folded [count, half], out [rows, 2 half].
void multiply_halves(const Halves& of, std::int64_t rows, const float* from, std::int64_t from_row,
                     const float* folded, std::int64_t half, float* out);

/// A second layer's products, as the first one's.
/// Shapes  sums [rows, 2 half], units after exchange_halves; folded [2, half, half], out [rows, 2 half].
void multiply_units(std::int64_t rows, const float* sums, const float* folded, std::int64_t half, float* out);

}  // namespace snake_ddp::kernels
