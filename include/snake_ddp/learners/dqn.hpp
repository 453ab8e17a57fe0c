// Deep Q-network: one network for the three snakes that values the four moves, learned by double Q-learning on n-step
// returns. As `vdn` its values are those of teams, the sum over their snakes (value decomposition network); as `qmix`
// a mixing network makes them from the snakes' and the state.
// Follows  Mnih et al., "Human-level control through deep reinforcement learning", Nature 518 (2015); van Hasselt, Guez
//          and Silver, "Deep reinforcement learning with double Q-learning", arXiv:1509.06461; Sunehag et al.,
//          "Value-decomposition networks for cooperative multi-agent learning", arXiv:1706.05296; Rashid et al., "QMIX", arXiv:1803.11485. See
//          docs/learners/dqn.md for the equations and differences.
#pragma once

#include <optional>

#include "snake_ddp/learners/adam.hpp"
#include "snake_ddp/learners/ddpg.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/learners/mixing.hpp"
#include "snake_ddp/nets/mlp.hpp"

namespace snake_ddp::learners {

/// Columns of a batch, by index: the first five are DDPG's, with the played move as one-hot action.
enum DqnColumn : std::size_t {
  kNextMoves = 5,  // [B, 3, 4], above 0 where the move may be made in the next state
  kBack = 6,       // [B, 1], of Pqn and Rqmix: see there
};

/// The columns of DqnColumn, kBack where `linked`.
std::vector<replay::Column> dqn_columns(const LearnerOptions& options, bool linked);

class Dqn final : public Learner, private nets::Policy {
 public:
  explicit Dqn(const LearnerOptions& options);

  [[nodiscard]] std::vector<replay::Column> columns() const override;
  [[nodiscard]] nets::Policy& policy() override { return *this; }
  void update(const replay::Batch& batch, const Average& average) override;
  void scale_rates(double factor) override;
  [[nodiscard]] at::Tensor measured() const override;
  [[nodiscard]] nets::NamedTensors state() override;
  void state_changed() override {}
  /// The network that is learned, and its target; with QMIX its mixing network.
  [[nodiscard]] nets::NamedTensors exported_actor() override { return net_.named(); }
  [[nodiscard]] nets::NamedTensors exported_critic() override;
  void start_from_exported() override;

  /// The networks, for tests.
  [[nodiscard]] nets::Mlp& net() { return net_; }
  [[nodiscard]] nets::Mlp& target() { return target_; }
  /// QMIX's.
  [[nodiscard]] nets::Mixer& mixer() { return mixing_->mixer; }
  [[nodiscard]] nets::Mixer& mixer_target() { return mixing_->target; }

 private:
  const at::Tensor& action_values(const at::Tensor& observations) override;
  [[nodiscard]] Answer answer() const override { return Answer::kValues; }
  at::Tensor next_values(const replay::Batch& batch, std::int64_t rows);
  at::Tensor errors(const replay::Batch& batch, const at::Tensor& chosen, const at::Tensor& next);
  at::Tensor chosen_gradient(const replay::Batch& batch, const at::Tensor& chosen, const at::Tensor& d_error);

  LearnerOptions options_;
  enum class Value { kSnake, kSum, kMixed } value_;  // whose value is learned, and how it is made
  nets::Mlp net_, target_;
  nets::FlatParameters gradient_;
  Adam adam_;
  std::optional<Mixing> mixing_;
  nets::MlpPass pass_, next_pass_, target_pass_, act_pass_, play_pass_;
  at::Tensor act_output_, loss_, q_mean_, norm_;
};

}  // namespace snake_ddp::learners
