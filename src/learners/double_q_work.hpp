// Double Q-learning's error as a functor: the same for every device.
#pragma once

#include <cstdint>

#include "snake_ddp/core/host_device.hpp"

namespace snake_ddp::learners {

/// The Huber loss of one learned value and its gradient, at each index. A value is the sum over `snakes` rows side by side.
/// Follows  van Hasselt et al., arXiv:1509.06461; QLearner::double_q_gradient is the same in the library's operators.
/// Shapes  rows of snakes: values, action, next_online, next_target, next_moves, d_values [R, 4], reward, discount [R];
///         of learned values: loss [R / snakes].
struct DoubleQ {
  static constexpr int kMoves = 4;

  int snakes;
  float share;  // 1 / learned values
  const float *values, *action, *reward, *discount, *next_online, *next_target, *next_moves;
  float *loss, *d_values;

  SD_HD void operator()(std::int64_t i) const {
    float error = 0;
    for (std::int64_t row = i * snakes; row < (i + 1) * snakes; ++row) {
      const std::int64_t first = row * kMoves;
      int best = -1;
      float chosen = 0;
      for (int m = 0; m < kMoves; ++m) {
        chosen += values[first + m] * action[first + m];
        const bool allowed = next_moves[first + m] > 0;
        if (allowed && (best < 0 || next_online[first + m] > next_online[first + best])) best = m;
      }
      error += chosen - (reward[row] + discount[row] * next_target[first + (best < 0 ? 0 : best)]);
    }
    const float slope = error < -1  ? -1.0F
                        : error > 1 ? 1.0F
                                    : error;  // dHuber/derror; not a number stays so
    loss[i] = slope * (error - slope * 0.5F);
    for (std::int64_t k = i * snakes * kMoves; k < (i + 1) * snakes * kMoves; ++k)
      d_values[k] = action[k] * (slope * share);
  }
};

#ifdef SD_HAVE_KERNELS
/// Queues work on a CUDA stream. Returns cudaSuccess, or the error.
int launch(const DoubleQ& work, std::int64_t count, void* stream);
#endif

}  // namespace snake_ddp::learners
