// The interface between learners and the training loop. A learner knows batches and gradients, but no games or
// ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "learners/buffer.hpp"
#include "learners/update_stats.hpp"
#include "nets/flat_parameters.hpp"
#include "nets/policy.hpp"

namespace snake_ddp::learners {

/// A network that is trained, as flat tensors. Views.
struct Trained {
  at::Tensor weights;
  std::vector<at::Tensor> slots;  // Adam's moments, and the target's weights where there is one
};

/// Replaces a flat gradient by its mean over all ranks; passed in by the training loop. With one rank it does nothing.
using Average = std::function<void(at::Tensor& flat_gradient)>;

class Learner {
 public:
  virtual ~Learner() = default;

  /// What replay must store, in the order that `update` expects. From a rollout it gets observation, action and return.
  [[nodiscard]] virtual std::vector<Column> columns() const = 0;

  [[nodiscard]] virtual nets::Policy& policy() = 0;
  /// The policy for games that are not learned from.
  [[nodiscard]] virtual nets::Policy& judged_policy() { return policy(); }

  /// One optimizer step of each network on this rank's batch.
  /// Collective  calls `average` the same number of times on every rank.
  virtual void update(const Batch& batch, const Average& average) = 0;

  /// Learning rates of the following updates become `factor` x those of the options.
  virtual void scale_rates(double factor) = 0;

  /// UpdateStats of the last update, [5] float32 in their order, on the learner's device. Queued there; waits for
  /// nothing.
  [[nodiscard]] virtual at::Tensor measured() const = 0;
  /// Of the last update.
  /// Cost        waits for the device.
  [[nodiscard]] UpdateStats stats() const;

  /// Everything that a bit-exact continuation needs: weights, targets, moments, step counters. Views; Owner:
  /// learner.
  [[nodiscard]] virtual nets::NamedTensors state() = 0;
  /// Must be called after tensors from `state()` or `trained()` were written.
  virtual void state_changed() = 0;

  /// All networks that it trains, always in the same order. Owner: learner.
  [[nodiscard]] virtual std::vector<Trained> trained() = 0;

  /// What goes into actor_N.pth and critic_N.pth, under the reference's names where it has such a network. Views;
  /// Owner: learner.
  [[nodiscard]] virtual nets::NamedTensors exported_actor() = 0;
  [[nodiscard]] virtual nets::NamedTensors exported_critic() = 0;
  /// Must be called after the exported tensors were written: targets start from them, moments from zero.
  virtual void start_from_exported() = 0;
};

}  // namespace snake_ddp::learners
