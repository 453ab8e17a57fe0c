// The acting side of a network or learner, as rollout sees it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "snake_ddp/nets/dense.hpp"
#include "snake_ddp/nets/mlp.hpp"

namespace snake_ddp::nets {

class Policy {
 public:
  /// What the numbers of an answer are.
  /// kWeights  unnormalised probabilities, negative ones count as 0: moves are sampled.
  /// kValues   what each move is worth: the best is made.
  enum class Answer { kWeights, kValues };

  virtual ~Policy() = default;
  [[nodiscard]] virtual Answer answer() const { return Answer::kWeights; }
  /// Shapes  observations [B, 3, features + 1] float32 in main memory, a constant 1 last; returns [B, 3, 4]
  ///         in main memory, valid until the next call. Observations on a learner's own device are taken as well; answers
  ///         to these may lie there.
  virtual const at::Tensor& action_values(const at::Tensor& observations) = 0;

  /// Floats that it remembers of a snake's steps; 0: it does not.
  [[nodiscard]] virtual std::int64_t memory() const { return 0; }
  /// As action_values, for a later step of games. action_values is for their first, and for who does not remember.
  /// Shapes  memory [B, 3, memory()] in main memory: zeros at a game's start, what was left there by the step before
  ///         later; overwritten.
  virtual const at::Tensor& action_values_after(const at::Tensor& observations, at::Tensor& /*memory*/) {
    return action_values(observations);
  }
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

/// A Q-network from a file, for playing.
class ValuePolicy final : public Policy {
 public:
  /// The kind of network (feed-forward or recurrent) is told from the names of `weights`, features and hidden size from
  /// its shapes.
  /// Throws  FileError when it is not a Q-network of ours. `what` names the source.
  ValuePolicy(const NamedTensors& weights, const std::string& what);

  [[nodiscard]] std::int64_t features() const { return features_; }
  [[nodiscard]] Answer answer() const override { return Answer::kValues; }
  [[nodiscard]] std::int64_t memory() const override { return policy_->memory(); }
  const at::Tensor& action_values(const at::Tensor& observations) override {
    return policy_->action_values(observations);
  }
  const at::Tensor& action_values_after(const at::Tensor& observations, at::Tensor& memory) override {
    return policy_->action_values_after(observations, memory);
  }

 private:
  std::int64_t features_;
  std::unique_ptr<Policy> policy_;
};

/// How files call the layers of a Q-network: q_net.0.weight and so on.
inline constexpr const char* kQNetName = "q_net";

/// Do these tensors look like a Q-network, rather than an actor?
bool is_q_net(const NamedTensors& weights);

/// A Q-network or an actor with this head, told by the names of `weights`.
/// Throws  FileError as their constructors.
std::unique_ptr<Policy> make_policy(const NamedTensors& weights, Head head, const std::string& what);

}  // namespace snake_ddp::nets
