// DDPG with networks for whole teams: actor and critic see all three snakes through an LSTM along the team in both
// directions.
// Follows  Peng et al., "Multiagent bidirectionally-coordinated nets", arXiv:1703.10069, as the reference implementation
//          of the game has it: see docs/learners/bicnet.md for the equations and differences.
#pragma once

#include <vector>

#include "learners/columns.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "learners/trainee.hpp"
#include "nets/bicnet.hpp"
#include "nets/net_policies.hpp"

namespace snake_ddp::learners {

/// Batches are those of DDPG.
class Bicnet final : public Learner {
 public:
  explicit Bicnet(const LearnerOptions& options);

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

  /// The four networks, for tests.
  [[nodiscard]] nets::BicnetNet& actor() { return actor_.net; }
  [[nodiscard]] nets::BicnetNet& critic() { return critic_.net; }
  [[nodiscard]] nets::BicnetNet& actor_target() { return actor_.target(); }
  [[nodiscard]] nets::BicnetNet& critic_target() { return critic_.target(); }

 private:
  // Each with the buffers of its passes.
  struct Pair : Trainee<nets::BicnetNet> {
    Pair(const LearnerOptions& options, const nets::BicnetShape& shape, double learning_rate,
         std::uint64_t seed);
    void refresh();
    void step(const Average& average);

    nets::BicnetMaps maps, target_maps;
    nets::BicnetPass pass;
  };

  void critic_gradient(const Batch& batch, const at::Tensor& observation);
  void actor_gradient(const at::Tensor& observation);

  LearnerOptions options_;
  Pair actor_, critic_;
  nets::BicnetPolicy policy_;
  at::Tensor critic_input_, d_q_, d_action_;  // [3, B, D + 5], [3, B, 1], [3, B, 4]
  at::Tensor critic_loss_, q_mean_, actor_loss_;
  at::Tensor updates_;  // 0-dim, their number
};

}  // namespace snake_ddp::learners
