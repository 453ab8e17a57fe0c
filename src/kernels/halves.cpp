#include "snake_ddp/kernels/halves.hpp"

#include <cstring>
#include <string>
#include <utility>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/simd.hpp"
#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::kernels {
namespace {

Halves::Part part_of(const std::vector<core::MirrorImage>& inputs, float side) {
  Halves::Part part;
  part.place.assign(inputs.size(), -1);
  part.sign.assign(inputs.size(), 1.0F);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const auto [of, sign] = inputs[k];
    const auto image = static_cast<std::size_t>(of);
    if (image < k || (image == k && sign != side)) continue;
    part.place[k] = part.place[image] = static_cast<std::int32_t>(part.first.size());
    if (image != k) part.sign[image] = side * sign;
    part.first.push_back(static_cast<std::int32_t>(k));
  }
  return part;
}

}  // namespace

Halves halves_of(const std::vector<core::MirrorImage>& inputs) {
  return {part_of(inputs, 1.0F), part_of(inputs, -1.0F)};
}

std::vector<core::MirrorImage> mirrored_units(std::int64_t hidden) {
  SD_CHECK(hidden % 2 == 0,
           "a symmetric network needs an even number of hidden units, not " + std::to_string(hidden));
  std::vector<core::MirrorImage> all;
  all.reserve(static_cast<std::size_t>(hidden));
  for (int i = 0; i < hidden; ++i) all.push_back({static_cast<int>((i + hidden / 2) % hidden)});
  return all;
}

void fold_weight(const Halves& of, std::int64_t half, const float* weight, float* folded) {
  for (const auto& [part, side] : {std::pair{&of.sums, 0.5F}, {&of.differences, -0.5F}}) {
    for (const std::int32_t first : part->first) {
      const float *p = weight + first * 2 * half, *r = p + half;
      for (std::int64_t j = 0; j < half; ++j) *folded++ = 0.5F * p[j] + side * r[j];
    }
  }
}

void unfold_gradient(std::int64_t half, const float* folded, float* weight) {
  const float *sum = folded, *difference = sum + half * half;
  for (std::int64_t i = 0; i < half; ++i, weight += 2 * half) {
    float* image = weight + half * 2 * half;
    for (std::int64_t j = 0; j < half; ++j, ++sum, ++difference) {
      weight[j] = image[half + j] = 0.25F * (*sum + *difference);
      weight[half + j] = image[j] = 0.25F * (*sum - *difference);
    }
  }
}

void exchange_halves(std::int64_t rows, std::int64_t half, const float* from, float* out) {
  const auto at = [&](std::int64_t j, auto kind) {
    decltype(kind) a, b;
    std::memcpy(&a, from + j, sizeof a);
    std::memcpy(&b, from + half + j, sizeof b);
    const auto sum = a + b, difference = a - b;
    std::memcpy(out + j, &sum, sizeof sum);
    std::memcpy(out + half + j, &difference, sizeof difference);
  };
  for (std::int64_t r = 0; r < rows; ++r, from += 2 * half, out += 2 * half) {
    std::int64_t j = 0;
    for (; j + core::kLanes <= half; j += core::kLanes) at(j, core::Vector{});
    for (; j < half; ++j) at(j, 0.0F);
  }
}

void multiply_halves(const Halves& of, std::int64_t rows, const float* from, std::int64_t from_row,
                     const float* folded, std::int64_t half, float* out) {
  const auto in = static_cast<std::int64_t>(of.sums.place.size());
  float* to = out;
  for (const Halves::Part* part : {&of.sums, &of.differences}) {
    const auto terms = static_cast<std::int64_t>(part->first.size());
    multiply_sparse_placed(rows, half, in, from, from_row, {part->place.data(), part->sign.data(), terms},
                           folded, to, 2 * half);
    folded += terms * half;
    to += half;
  }
}

void multiply_units(std::int64_t rows, const float* sums, const float* folded, std::int64_t half,
                    float* out) {
  for (std::int64_t part = 0; part < 2; ++part) {
    multiply(rows, half, half, {sums + part * half, 2 * half, 1}, {folded + part * half * half, half, 1},
             out + part * half, 2 * half);
  }
}

}  // namespace snake_ddp::kernels
