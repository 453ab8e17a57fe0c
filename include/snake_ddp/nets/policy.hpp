// The acting side of a network or learner, as rollout sees it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "snake_ddp/nets/dense.hpp"

namespace snake_ddp::nets {

class Policy {
 public:
  virtual ~Policy() = default;
  /// Shapes  observations [B, 3, features + 1] float32 in main memory, a constant 1 last; returns [B, 3, 4]
  /// in main
  ///         memory, valid until the next call: unnormalised probabilities, negative ones count as 0.
  virtual const at::Tensor& action_values(const at::Tensor& observations) = 0;
};

/// An actor from a file, for playing.
class ActorPolicy final : public Policy {
 public:
  /// The kind of network (DDPG's or BiCNet's) is told from the names of `actor`, features and hidden size from its
  /// shapes; its head is `head`.
  /// Throws  FileError when it is not an actor of the reference's form. `what` names the source.
  ActorPolicy(const NamedTensors& actor, Head head, const std::string& what);

  [[nodiscard]] std::int64_t features() const { return features_; }
  const at::Tensor& action_values(const at::Tensor& observations) override {
    return policy_->action_values(observations);
  }

 private:
  std::int64_t features_;
  std::unique_ptr<Policy> policy_;
};

}  // namespace snake_ddp::nets
