#include "snake_ddp/kernels/rounded_layers.hpp"

#include <utility>

#include "snake_ddp/core/check.hpp"

namespace snake_ddp::kernels {

void RoundedFirst::set(const Halves* halves, std::int64_t in, std::int64_t width, const float* weights,
                       core::Bf16By instructions) {
  SD_CHECK(halves == nullptr || halves_pay(instructions),
           "halves are computed by vector instructions only, not by tiles");
  in_ = in, width_ = width;
  if (halves != nullptr) {
    const auto sums = static_cast<std::int64_t>(halves->sums.first.size());
    rows_[0].set(width / 2, sums, weights);
    rows_[1].set(width / 2, halves->count() - sums, weights + sums * width / 2);
  } else if (instructions == core::Bf16By::kVectors) {
    rows_[0].set(width, in, weights);
  } else {
    whole_.set(width, in, {weights, width, 1}, instructions);
  }
}

void RoundedFirst::multiply(const Halves* halves, std::int64_t rows, const float* from, std::int64_t from_row,
                            float* out) const {
  if (!whole_.empty()) return multiply_bf16(rows, {from, from_row, 1}, whole_, out, width_);
  if (!halved()) return multiply_sparse_bf16(rows, in_, from, from_row, nullptr, rows_[0], out, width_);
  for (const auto& [part, weights] :
       {std::pair{&halves->sums, &rows_[0]}, {&halves->differences, &rows_[1]}}) {
    const Placing placing{part->place.data(), part->sign.data(),
                          static_cast<std::int64_t>(part->first.size())};
    multiply_sparse_bf16(rows, in_, from, from_row, &placing, *weights, out, width_);
    out += width_ / 2;
  }
}

void RoundedSecond::set(bool halved, std::int64_t width, const float* weights, core::Bf16By instructions) {
  width_ = width, halved_ = halved;
  const std::int64_t size = halved ? width / 2 : width;
  parts_[0].set(size, size, {weights, size, 1}, instructions);
  if (halved) parts_[1].set(size, size, {weights + size * size, size, 1}, instructions);
}

void RoundedSecond::multiply(std::int64_t rows, const float* from, float* out) const {
  const std::int64_t half = width_ / 2;
  multiply_bf16(rows, {from, width_, 1}, parts_[0], out, width_);
  if (halved_) multiply_bf16(rows, {from + half, width_, 1}, parts_[1], out + half, width_);
}

}  // namespace snake_ddp::kernels
