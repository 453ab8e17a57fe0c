// Clipping, Adam and the Polyak step of one network's flat parameters: on the CPU one pass over memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "snake_ddp/nets/flat_parameters.hpp"

namespace snake_ddp::learners {

/// Adam (Kingma and Ba, arXiv:1412.6980) with the defaults of torch.optim.Adam.
struct Adam {
  /// `by_library`: with ATen's kernels, on any device; otherwise with our own, for main memory.
  Adam(const nets::FlatParameters& parameters, double learning_rate, bool by_library);

  /// Scales the gradient down to a norm of at most `max_norm` as torch.nn.utils.clip_grad_norm_ does, then steps.
  /// Shapes  parameters, gradient [n]; the gradient's content is spent. Returns the norm before clipping, 0-dim, on the
  ///         parameters' device.
  at::Tensor step(at::Tensor& parameters, at::Tensor& gradient, double max_norm);

  /// The same, then target := target + tau * (parameters - target).
  at::Tensor step(at::Tensor& parameters, at::Tensor& gradient, double max_norm, at::Tensor& target,
                  double tau);

  /// Moments to zero, as before the first step.
  void reset();

  double learning_rate;
  bool by_library;
  nets::FlatParameters first_moment, second_moment;
  at::Tensor steps;  // 0-dim float32
};

}  // namespace snake_ddp::learners
