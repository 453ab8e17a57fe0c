// How the ranks' updates are combined: in every update, or once in several updates.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "learners/learner.hpp"
#include "nets/flat_parameters.hpp"

namespace snake_ddp::train {

class Averaging {
 public:
  virtual ~Averaging() = default;

  /// Before the first update of a start, after the learner's weights are set and `restore` is done.
  virtual void begin() {}
  /// The `average` for the learner's updates.
  [[nodiscard]] virtual const learners::Average& reduce() const = 0;
  /// After each update.
  virtual void updated() {}
  /// Before work for which the weights must be equal on all ranks.
  /// Collective  each rank calls it after the same update.
  virtual void synchronise() {}
  /// Whether the weights are equal on all ranks without it.
  [[nodiscard]] virtual bool are_synchronised() const { return true; }

  /// What a bit-exact continuation needs, equal on all ranks. After `synchronise`. Views; Owner: this.
  [[nodiscard]] virtual nets::NamedTensors state() { return {}; }
  /// Takes up the state of a run that averaged alike, and leaves that of another kind aside.
  /// Throws  FileError that starts with `what` for what cannot have been such a state.
  virtual void restore(const nets::NamedTensors& /*state*/, const std::string& /*what*/) {}
};

/// Averages the learner's gradients at once.
std::unique_ptr<Averaging> average_every_update(learners::Average average);

/// Each rank steps by its own gradients. After `interval` updates, and at `synchronise`, weights, targets and Adam's moments become their
/// means over all ranks; then the weights take the outer step with Nesterov's momentum from where they were at the last average:
///   delta = start - mean(theta), v <- momentum * v + delta, theta <- start - (delta + momentum * v)
/// Without momentum, theta is the mean itself, as in local SGD (Stich, arXiv:1805.09767). Owner: `learner` must outlive it.
/// Follows  Douillard et al., "DiLoCo", arXiv:2311.08105, with the whole step instead of 0.7 of it; moments are averaged as the
///          buffers of Wang et al., "SlowMo", arXiv:1910.06553, are: ranks then hold one state, which checkpoints and
///          comparisons need, and with which a run continues on another number of ranks.
std::unique_ptr<Averaging> average_weights(learners::Learner& learner, std::int64_t interval, double momentum,
                                           learners::Average average);

}  // namespace snake_ddp::train
