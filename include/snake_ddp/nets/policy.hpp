// The acting side of a network or learner, as rollout sees it.
#pragma once

#include <ATen/core/Tensor.h>

#include "snake_ddp/nets/dense_rows.hpp"

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
  /// Features and hidden size are told from the shapes of `actor`; its head is `head`.
  /// Throws  FileError when it is not an actor of the reference's form. `what` names the source.
  ActorPolicy(const NamedTensors& actor, Head head, const std::string& what);

  [[nodiscard]] std::int64_t features() const { return net_.shape().in; }
  const at::Tensor& action_values(const at::Tensor& observations) override;

 private:
  DenseNet net_;
  DenseRows rows_;
  RowScratch scratch_;
  at::Tensor output_;
};

}  // namespace snake_ddp::nets
