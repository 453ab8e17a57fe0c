// A layer with few outputs as a functor: the same for every device.
#pragma once

#include <cstdint>

#include "snake_ddp/core/host_device.hpp"

namespace snake_ddp::nets {

/// output = hidden * weight^T + bias, for one row at each index. Libraries have no good product for so few columns.
/// Shapes  hidden [R, width], weight [kOutputs, width], bias [kOutputs], output [R, kOutputs].
template <int kOutputs>
struct LastLayer {
  static constexpr int kLanes = 8, kPhases = 2;
  static_assert(kOutputs <= kLanes);
  struct Shared {
    float part[kLanes][kOutputs];
  };

  std::int64_t width;
  const float *hidden, *weight, *bias;
  float* output;

  SD_HD void operator()(int phase, std::int64_t row, int lane, Shared& shared) const {
    if (phase == 0) {
      float sum[kOutputs] = {};
      for (std::int64_t c = lane; c < width; c += kLanes) {
        const float h = hidden[row * width + c];
        for (int k = 0; k < kOutputs; ++k) sum[k] += h * weight[k * width + c];
      }
      for (int k = 0; k < kOutputs; ++k) shared.part[lane][k] = sum[k];
    } else if (lane < kOutputs) {
      float sum = bias[lane];
      for (const auto& part : shared.part) sum += part[lane];
      output[row * kOutputs + lane] = sum;
    }
  }
};

#ifdef SD_HAVE_KERNELS
/// Queue work on a CUDA stream. Return cudaSuccess, or the error.
int launch(const LastLayer<1>& work, std::int64_t rows, void* stream);
int launch(const LastLayer<4>& work, std::int64_t rows, void* stream);
#endif

}  // namespace snake_ddp::nets
