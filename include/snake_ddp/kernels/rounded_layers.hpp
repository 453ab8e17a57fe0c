// The hidden layers of a Q-network in bfloat16: by tiles whole products; by vectors products that skip zeros, and of symmetric
// networks half as many (kernels/halves.hpp).
#pragma once

#include <array>
#include <cstdint>

#include "snake_ddp/kernels/bf16.hpp"
#include "snake_ddp/kernels/halves.hpp"

namespace snake_ddp::kernels {

/// Whether a symmetric network's layers are computed by halves with these instructions; products by tiles are so fast that taking
/// sums and differences does not pay off.
inline bool halves_pay(core::Bf16By instructions) { return instructions == core::Bf16By::kVectors; }

/// Most of its inputs are 0.
class RoundedFirst {
 public:
  /// Shapes  weights [in, width]; with `halves`, for vectors only, those of fold_weight [halves->count(), width / 2].
  void set(const Halves* halves, std::int64_t in, std::int64_t width, const float* weights,
           core::Bf16By instructions);
  [[nodiscard]] bool empty() const { return whole_.empty() && rows_[0].empty(); }
  [[nodiscard]] bool halved() const { return !rows_[1].empty(); }

  /// Shapes  from [rows, in] with rows `from_row` apart, out [rows, width], as multiply_halves' if it was set with these `halves`, else
  ///         null.
  void multiply(const Halves* halves, std::int64_t rows, const float* from, std::int64_t from_row,
                float* out) const;

 private:
  std::int64_t in_ = 0, width_ = 0;
  Bf16Matrix whole_;
  std::array<Bf16Rows, 2> rows_;
};

class RoundedSecond {
 public:
  /// Shapes  weights [width, width], or if `halved` those of fold_weight [2, width / 2, width / 2].
  void set(bool halved, std::int64_t width, const float* weights, core::Bf16By instructions);

  /// As multiply_units if it was set with halves.
  /// Shapes  from and out [rows, width].
  void multiply(std::int64_t rows, const float* from, float* out) const;

 private:
  std::int64_t width_ = 0;
  bool halved_ = false;
  std::array<Bf16Matrix, 2> parts_;
};

}  // namespace snake_ddp::kernels
