// Deep deterministic policy gradient, one actor and one critic shared by the three snakes.
// Follows  Lillicrap et al., "Continuous control with deep reinforcement learning", arXiv:1509.02971, as the
//          reference implementation of the game has it: see docs/learners/ddpg.md for the equations and
//          differences.
#pragma once

#include <vector>

#include "learners/columns.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "learners/trainee.hpp"
#include "nets/dense.hpp"
#include "nets/net_policies.hpp"

namespace snake_ddp::learners {

/// A network that is trained, with the buffers of its passes.
struct DdpgTrainee : Trainee<nets::DenseNet> {
  DdpgTrainee(const LearnerOptions& options, const nets::DenseShape& shape, double learning_rate,
              std::uint64_t seed);
  /// Must be called after weights or targets were written.
  void refresh() { folded.refresh(net); }
  void refresh_target() { target_folded.refresh(target()); }

  nets::Folded folded, target_folded;
  nets::FoldedGradient folded_gradient;  // what is averaged; `gradient` is made from it
  nets::DensePass pass, target_pass;
};

class Ddpg final : public Learner {
 public:
  explicit Ddpg(const LearnerOptions& options);

  [[nodiscard]] std::vector<Column> columns() const override;
  [[nodiscard]] nets::Policy& policy() override { return policy_; }
  void update(const Batch& batch, const Average& average) override;
  void scale_rates(double factor) override;
  [[nodiscard]] at::Tensor measured() const override;
  [[nodiscard]] nets::NamedTensors state() override;
  void state_changed() override;
  [[nodiscard]] std::vector<Trained> trained() override;
  [[nodiscard]] nets::NamedTensors exported_actor() override { return actor_.net.named(); }
  [[nodiscard]] nets::NamedTensors exported_critic() override { return critic_.net.named(); }
  void start_from_exported() override;

  /// The four networks, for tests: actor, critic, actor target, critic target.
  [[nodiscard]] nets::DenseNet& actor() { return actor_.net; }
  [[nodiscard]] nets::DenseNet& critic() { return critic_.net; }
  [[nodiscard]] nets::DenseNet& actor_target() { return actor_.target(); }
  [[nodiscard]] nets::DenseNet& critic_target() { return critic_.target(); }

 private:
  /// A batch's rows, [R, ...], on the learner's device, and some of them.
  struct Transitions {
    at::Tensor observation, action, reward, next_observation, discount;
    [[nodiscard]] Transitions part(std::int64_t first, std::int64_t count) const;
  };
  [[nodiscard]] Transitions transitions_of(const Batch& batch) const;

  void step(DdpgTrainee& trainee);
  void critic_gradient(const Transitions& all);
  void actor_gradient(const at::Tensor& observations);
  [[nodiscard]] at::Tensor next_values(const at::Tensor& next);

  LearnerOptions options_;
  DdpgTrainee actor_, critic_;
  nets::DensePolicy policy_;
  at::Tensor move_values_, d_action_;             // scratch
  at::Tensor critic_loss_, q_mean_, actor_loss_;  // 0-dim
  at::Tensor updates_;                            // 0-dim, their number
};

}  // namespace snake_ddp::learners
