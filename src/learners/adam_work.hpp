// Adam as functors: the same for every device.
#pragma once

#include <cmath>
#include <cstdint>

#include "snake_ddp/core/host_device.hpp"

namespace snake_ddp::learners {

inline constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kAdamEpsilon = 1e-8, kClipEpsilon = 1e-6;

/// What all elements of a step share.
struct AdamScales {
  float clip, rate, correction;
};

/// `norm` is the gradient's before clipping, `step` counts from 1.
SD_HD inline AdamScales adam_scales(float norm, double max_norm, double step, double learning_rate) {
  const double clip = max_norm / (static_cast<double>(norm) + kClipEpsilon);
  return {static_cast<float>(clip < 1.0 ? clip : 1.0),
          static_cast<float>(learning_rate / (1 - std::pow(kBeta1, step))),
          static_cast<float>(1 / std::sqrt(1 - std::pow(kBeta2, step)))};
}

/// One element; returns the parameter's new value.
SD_HD inline float adam_element(const AdamScales& s, float gradient, float parameter, float& first,
                                float& second) {
  constexpr auto kB1 = static_cast<float>(1 - kBeta1), kB2 = static_cast<float>(1 - kBeta2);
  const float clipped = gradient * s.clip;
  first += kB1 * (clipped - first);
  second += kB2 * (clipped * clipped - second);
  return parameter - s.rate * first / (std::sqrt(second) * s.correction + static_cast<float>(kAdamEpsilon));
}

/// Counts the step and prepares its scales from the gradient's squared norm; one index for the whole step. The learning
/// rate is on the device, so that a recorded step can be replayed with another one.
struct BeginAdam {
  const float* squares;
  float *norm, *steps;
  const double* learning_rate;
  double max_norm;
  AdamScales* scales;

  SD_HD void operator()(std::int64_t) const {
    *steps += 1;
    *norm = std::sqrt(*squares);
    *scales = adam_scales(*norm, max_norm, static_cast<double>(*steps), *learning_rate);
  }
};

/// Clip, Adam and the target's Polyak step of one element. `target` may be null.
struct StepAdam {
  const AdamScales* scales;
  const float* gradient;
  float *parameter, *first, *second, *target;
  float tau;

  SD_HD void operator()(std::int64_t i) const {
    const float now = adam_element(*scales, gradient[i], parameter[i], first[i], second[i]);
    parameter[i] = now;
    if (target != nullptr) target[i] += tau * (now - target[i]);
  }
};

#ifdef SD_HAVE_KERNELS
/// Queue work on a CUDA stream. Return cudaSuccess, or the error.
int launch(const BeginAdam& work, std::int64_t count, void* stream);
int launch(const StepAdam& work, std::int64_t count, void* stream);
#endif

}  // namespace snake_ddp::learners
