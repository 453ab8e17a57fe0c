// Clipping, Adam and the Polyak step of one network's flat parameters: on the CPU one pass over memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "nets/backend.hpp"
#include "nets/flat_parameters.hpp"

namespace snake_ddp::learners {

/// Adam (Kingma and Ba, arXiv:1412.6980) with the defaults of torch.optim.Adam.
struct Adam {
  /// How a step is computed.
  /// kOnePass  by our own loop in main memory.
  /// kPieces   by our own kernels on any device, in the order of its stream, without the host waiting.
  /// kLibrary  by ATen's kernels, on any device.
  enum class Way { kOnePass, kPieces, kLibrary };

  /// Its way is kOnePass with our own kernels, else kLibrary; on a GPU kPieces if the program has kernels. `backend`: null for that of
  /// the device.
  Adam(const nets::FlatParameters& parameters, double learning_rate, const nets::Backend* backend = nullptr);

  /// Scales the gradient down to a norm of at most `max_norm` as torch.nn.utils.clip_grad_norm_ does, then steps.
  /// Shapes  parameters, gradient [n]; the gradient is overwritten. Returns the norm before clipping, 0-dim, on the
  ///         parameters' device.
  at::Tensor step(at::Tensor& parameters, at::Tensor& gradient, double max_norm);

  /// One step, then target := target + tau * (parameters - target).
  at::Tensor step(at::Tensor& parameters, at::Tensor& gradient, double max_norm, at::Tensor& target,
                  double tau);

  /// Moments to zero, as before the first step.
  void reset();

  /// Copies a changed learning rate to the device; to be called before a recorded step is replayed.
  void publish_rate();

  double learning_rate;
  Way way;
  nets::FlatParameters first_moment, second_moment;
  at::Tensor steps;  // 0-dim float32

 private:
  at::Tensor squares_, norm_, scales_, rate_;  // on the device, not with kOnePass
  double published_ = -1;
};

/// Appends what a continuation needs: moments as `prefix`first. and `prefix`second. before the names of `net`'s
/// parameters, and `prefix`steps. Views; Owner: `adam`.
template <class Net>
void add_adam(nets::NamedTensors& out, const std::string& prefix, const Net& net, const Adam& adam) {
  nets::add_under(out, prefix + "first.", net.named_views(adam.first_moment));
  nets::add_under(out, prefix + "second.", net.named_views(adam.second_moment));
  out.emplace_back(prefix + "steps", adam.steps);
}

}  // namespace snake_ddp::learners
