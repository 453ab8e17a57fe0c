// Parallelised Q-network: the Q-network of Dqn learned from what all boards have just played, by lambda-returns and without
// replay or target network; layer norm keeps it stable. As `pqn_vdn` its values are those of teams, the sum over their
// snakes.
// Follows  Gallici et al., "Simplifying deep temporal difference learning", arXiv:2407.04811, algorithm 1. See
//          docs/learners/pqn.md for the equations and differences.
#pragma once

#include "snake_ddp/learners/adam.hpp"
#include "snake_ddp/learners/dqn.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/nets/mlp.hpp"

namespace snake_ddp::learners {

/// Returns of transitions in the order in which they were played, several games among each other:
///   G_i = r_i + discount_i ((1 - lambda) V_i + lambda G_j)    where j, the game's next transition, is among them,
///   G_i = r_i + discount_i V_i                                at the last one of a game, or of all.
/// Shapes  reward, discount, value [N, 3], the last that of the state after; back [N, 1]: how many rows before it the
///         game's previous transition stands, 0 at its first. Returns [N, 3].
at::Tensor lambda_returns(const at::Tensor& reward, const at::Tensor& discount, const at::Tensor& value,
                          const at::Tensor& back, double lambda);

/// Batches have the first three columns of DqnColumn, with the return as reward.
class Pqn final : public Learner, private nets::Policy {
 public:
  explicit Pqn(const LearnerOptions& options);

  [[nodiscard]] std::vector<replay::Column> columns() const override;
  void prepare(replay::Batch& rollout) override;
  [[nodiscard]] nets::Policy& policy() override { return *this; }
  void update(const replay::Batch& batch, const Average& average) override;
  void scale_rates(double factor) override;
  [[nodiscard]] at::Tensor measured() const override;
  [[nodiscard]] nets::NamedTensors state() override;
  void state_changed() override {}
  /// The network, twice: there is no other.
  [[nodiscard]] nets::NamedTensors exported_actor() override { return net_.named(); }
  [[nodiscard]] nets::NamedTensors exported_critic() override { return net_.named(); }
  void start_from_exported() override { adam_.reset(); }

 private:
  const at::Tensor& action_values(const at::Tensor& observations) override;
  [[nodiscard]] Answer answer() const override { return Answer::kValues; }

  LearnerOptions options_;
  bool of_teams_;  // values are those of teams
  nets::Mlp net_;
  nets::FlatParameters gradient_;
  Adam adam_;
  nets::MlpPass pass_, next_pass_, act_pass_;
  at::Tensor act_output_, loss_, q_mean_, norm_;
};

}  // namespace snake_ddp::learners
