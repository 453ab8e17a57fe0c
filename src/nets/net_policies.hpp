// How each kind of network plays: one policy for training, matches, the league and export. A policy refers to its network,
// which must outlive it; weights may change between calls.
#pragma once

#include <cstdint>
#include <map>

#include "nets/bicnet.hpp"
#include "nets/dense.hpp"
#include "nets/gru_net.hpp"
#include "nets/mlp.hpp"
#include "nets/policy.hpp"

namespace snake_ddp::nets {

/// The results of passes for acting. Observations on a device come in batches of a few sizes: a recording holds the addresses of
/// their pass, which must not change when a batch of another size comes.
template <class Pass>
struct ActingPasses {
  Pass host;
  std::map<std::int64_t, Pass> device;  // by batch size
  Pass& of(const at::Tensor& observations) {
    return observations.is_cpu() ? host : device[observations.size(0)];
  }
};

/// A dense actor.
class DensePolicy : public Policy {
 public:
  DensePolicy(const DenseNet& net, const Folded& folded) : net_(&net), folded_(&folded) {}
  const at::Tensor& action_values(const at::Tensor& observations) override;

 private:
  const DenseNet* net_;
  const Folded* folded_;
  ActingPasses<DensePass> passes_;
  at::Tensor output_;
};

/// A BiCNet actor.
class BicnetPolicy : public Policy {
 public:
  BicnetPolicy(const BicnetNet& net, const BicnetMaps& maps) : net_(&net), maps_(&maps) {}
  const at::Tensor& action_values(const at::Tensor& observations) override;

 private:
  const BicnetNet* net_;
  const BicnetMaps* maps_;
  ActingPasses<BicnetPass> passes_;
  at::Tensor output_;
};

/// A Q-network, feed-forward.
class MlpPolicy : public Policy {
 public:
  explicit MlpPolicy(const Mlp& net) : net_(&net) {}
  [[nodiscard]] Answer answer() const override { return Answer::kValues; }
  const at::Tensor& action_values(const at::Tensor& observations) override;

 private:
  const Mlp* net_;
  ActingPasses<MlpPass> passes_;
  at::Tensor output_;
};

/// A Q-network with memory.
class GruPolicy : public Policy {
 public:
  explicit GruPolicy(const GruNet& net) : net_(&net) {}
  [[nodiscard]] Answer answer() const override { return Answer::kValues; }
  [[nodiscard]] std::int64_t memory() const override { return net_->shape().hidden; }
  const at::Tensor& action_values(const at::Tensor& observations) override;
  const at::Tensor& action_values_after(const at::Tensor& observations, at::Tensor& memory) override;

 private:
  const GruNet* net_;
  GruPass pass_;
  at::Tensor output_;
};

}  // namespace snake_ddp::nets
