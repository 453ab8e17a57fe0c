// The acting side of a network or learner, as rollout sees it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "nets/dense_shape.hpp"
#include "nets/flat_parameters.hpp"
#include "snake_ddp/core/mirror_image.hpp"

namespace snake_ddp::nets {

class Policy {
 public:
  /// What a policy's outputs mean.
  /// kWeights  unnormalised probabilities, negative ones count as 0: moves are sampled.
  /// kValues   what each move is worth: the best one is made.
  enum class Answer { kWeights, kValues };

  virtual ~Policy() = default;
  [[nodiscard]] virtual Answer answer() const { return Answer::kWeights; }
  /// Shapes  observations [B, 3, features + 1] float32, a constant 1 last, in main memory or on the network's device;
  ///         returns [B, 3, 4] on the observations' device, valid until the next call.
  virtual const at::Tensor& action_values(const at::Tensor& observations) = 0;

  /// Floats of memory per snake, from step to step; 0 for a policy without memory.
  [[nodiscard]] virtual std::int64_t memory() const { return 0; }
  /// Like action_values, for later steps of games. action_values is for their first step, and for policies without memory.
  /// Shapes  memory [B, 3, memory()] in main memory: zeros at a game's start, later what the previous step left;
  ///         overwritten.
  virtual const at::Tensor& action_values_after(const at::Tensor& observations, at::Tensor& /*memory*/) {
    return action_values(observations);
  }
};

/// How files name the layers of a Q-network: q_net.0.weight and so on.
inline constexpr const char* kQNetName = "q_net";

/// Do these tensors look like a Q-network, rather than an actor?
bool is_q_net(const NamedTensors& weights);

/// A policy that plays weights from a file. The kind of network follows from their names, its width from their shapes;
/// `head` is for actors. A Q-network that is symmetric under `mirror` takes fewer products in main memory.
/// Throws  FileError if they are neither an actor nor a Q-network of ours. `what` names the source.
std::unique_ptr<Policy> make_policy(const NamedTensors& weights, Head head, const std::string& what,
                                    const core::Mirror& mirror = {}, at::Device device = at::kCPU);

/// The features that this policy reads, without the constant.
/// Throws  as make_policy.
std::int64_t features_of(const NamedTensors& weights, const std::string& what);

/// The width of its hidden layers.
/// Throws  as make_policy.
std::int64_t hidden_of(const NamedTensors& weights, const std::string& what);

}  // namespace snake_ddp::nets
