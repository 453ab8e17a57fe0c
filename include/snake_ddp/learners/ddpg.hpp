// Deep deterministic policy gradient, one actor and one critic shared by the three snakes.
// Follows  Lillicrap et al., "Continuous control with deep reinforcement learning", arXiv:1509.02971, as the
//          reference implementation of the game has it: see docs/learners/ddpg.md for the equations and
//          differences.
#pragma once

#include <memory>

#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/nets/dense.hpp"

namespace snake_ddp::learners {

/// Columns of a batch, by index.
enum DdpgColumn : std::size_t {
  kObservation,      // [B, 3, D + 1], the last one constant 1
  kAction,           // [B, 3, 4]
  kReward,           // [B, 3], sum of n discounted rewards
  kNextObservation,  // [B, 3, D + 1], n steps later
  kDiscount,         // [B, 3], gamma^n, 0 where the game ended
};

/// Adam (Kingma and Ba, arXiv:1412.6980) on a flat tensor.
struct Adam {
  Adam(const nets::FlatParameters& parameters, double learning_rate);
  /// Clips the gradient's norm to `max_norm` in place, then steps. Returns the norm before clipping, 0-dim.
  at::Tensor step(at::Tensor& parameters, at::Tensor& gradient, double max_norm);

  double learning_rate;
  nets::FlatParameters first_moment, second_moment;
  at::Tensor steps;  // 0-dim float32
};

class Ddpg final : public Learner, private nets::Policy {
 public:
  explicit Ddpg(const LearnerOptions& options);

  [[nodiscard]] std::vector<replay::Column> columns() const override;
  [[nodiscard]] nets::Policy& policy() override { return *this; }
  void update(const replay::Batch& batch, const Average& average) override;
  [[nodiscard]] UpdateStats stats() const override;
  [[nodiscard]] nets::NamedTensors state() override;
  void state_changed() override;
  [[nodiscard]] nets::NamedTensors exported_actor() override { return actor_.named(); }
  [[nodiscard]] nets::NamedTensors exported_critic() override { return critic_.named(); }
  void start_from_exported() override;

  /// The four networks, for tests: actor, critic, actor target, critic target.
  [[nodiscard]] nets::DenseNet& actor() { return actor_; }
  [[nodiscard]] nets::DenseNet& critic() { return critic_; }
  [[nodiscard]] nets::DenseNet& actor_target() { return actor_target_; }
  [[nodiscard]] nets::DenseNet& critic_target() { return critic_target_; }

 private:
  const at::Tensor& action_values(const at::Tensor& observations) override;
  void fit_workspace(std::int64_t rows);
  void learn_critic(const replay::Batch& batch, const at::Tensor& observation, const Average& average);
  const at::Tensor& next_values(const at::Tensor& next);
  void learn_actor(const at::Tensor& observation, const Average& average);

  LearnerOptions options_;
  nets::DenseNet actor_, critic_, actor_target_, critic_target_;
  nets::FlatParameters actor_gradient_, critic_gradient_;
  Adam actor_adam_, critic_adam_;
  nets::Folded actor_folded_, critic_folded_, target_folded_actor_, target_folded_critic_;

  // The critics' inputs: features and actions side by side, the last column 1.
  at::Tensor critic_input_, next_critic_input_;
  nets::Pass actor_pass_, critic_pass_, target_pass_, act_pass_;
  at::Tensor act_output_, d_q_, d_action_, target_q_, move_values_;
  at::Tensor critic_loss_, q_mean_, critic_norm_, actor_norm_, actor_loss_;
  std::int64_t updates_ = 0;
};

}  // namespace snake_ddp::learners
