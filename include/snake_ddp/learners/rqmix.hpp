// QMIX with agents that remember: a recurrent Q-network shared by the three snakes, learned from windows of consecutive
// transitions, its values mixed to the team's by a network that rises in each of them.
// Follows  Rashid et al., "QMIX", arXiv:1803.11485; windows and their burn-in: Kapturowski et al., "Recurrent experience
//          replay in distributed reinforcement learning" (R2D2), ICLR 2019. See docs/learners/qmix.md for the equations
//          and differences.
#pragma once

#include "snake_ddp/learners/adam.hpp"
#include "snake_ddp/learners/dqn.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/learners/mixing.hpp"
#include "snake_ddp/nets/gru_net.hpp"

namespace snake_ddp::learners {

/// Batches have the columns of DqnColumn, window after window, `back` as replay::Buffer::sample_windows leaves it.
class Rqmix final : public Learner, private nets::Policy {
 public:
  /// Throws  UsageError where no transition of a window would be learned from.
  explicit Rqmix(const LearnerOptions& options);

  [[nodiscard]] std::vector<replay::Column> columns() const override;
  [[nodiscard]] nets::Policy& policy() override { return *this; }
  void update(const replay::Batch& batch, const Average& average) override;
  void scale_rates(double factor) override;
  [[nodiscard]] at::Tensor measured() const override;
  [[nodiscard]] nets::NamedTensors state() override;
  void state_changed() override {}
  /// The snakes' network, and the mixing network.
  [[nodiscard]] nets::NamedTensors exported_actor() override { return net_.named(); }
  [[nodiscard]] nets::NamedTensors exported_critic() override { return mixing_.mixer.named(); }
  void start_from_exported() override;

  /// The networks, for tests.
  [[nodiscard]] nets::GruNet& net() { return net_; }
  [[nodiscard]] nets::GruNet& target() { return target_; }
  [[nodiscard]] nets::Mixer& mixer() { return mixing_.mixer; }
  [[nodiscard]] nets::Mixer& mixer_target() { return mixing_.target; }

 private:
  [[nodiscard]] Answer answer() const override { return Answer::kValues; }
  [[nodiscard]] std::int64_t memory() const override { return options_.hidden_size; }
  const at::Tensor& action_values(const at::Tensor& observations) override;
  const at::Tensor& action_values_after(const at::Tensor& observations, at::Tensor& memory) override;

  LearnerOptions options_;
  nets::GruNet net_, target_;
  nets::FlatParameters gradient_;
  Adam adam_;
  Mixing mixing_;
  nets::GruPass pass_, target_pass_, act_pass_;
  at::Tensor act_output_, loss_, q_mean_, norm_;
};

}  // namespace snake_ddp::learners
