// Boards without a learner, for benchmarks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "snake_ddp/play/obs_spec.hpp"

namespace snake_ddp::rollout {

/// Boards played with random moves and restarted at their end, for benchmarks: each call is one step of all.
class RandomBoards {
 public:
  /// With `obs_spec` team A's observation is written after each step.
  RandomBoards(std::int64_t boards, std::uint64_t seed, const play::ObsSpec* obs_spec, at::Device device);
  void step();
  /// [boards, 256] bytes, and [boards, 3, features + 1] or undefined.
  [[nodiscard]] const at::Tensor& boards() const { return boards_; }
  [[nodiscard]] const at::Tensor& observations() const { return observations_; }

 private:
  play::ObsSpec sight_;
  std::uint64_t seed_;
  at::Tensor boards_, games_, observations_;
};

}  // namespace snake_ddp::rollout
