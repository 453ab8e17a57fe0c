// DDPG with a team's networks: actor and critic see all three snakes through an LSTM that runs along the team in both
// directions.
// Follows  Peng et al., "Multiagent bidirectionally-coordinated nets", arXiv:1703.10069, as the reference implementation
//          of the game has it: see docs/learners/bicnet.md for the equations and differences.
#pragma once

#include <optional>

#include "snake_ddp/learners/adam.hpp"
#include "snake_ddp/learners/ddpg.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/nets/bicnet.hpp"

namespace snake_ddp::learners {

/// Batches are those of DDPG, its columns under DdpgColumn.
class Bicnet final : public Learner, private nets::Policy {
 public:
  explicit Bicnet(const LearnerOptions& options);

  [[nodiscard]] std::vector<replay::Column> columns() const override;
  [[nodiscard]] nets::Policy& policy() override { return *this; }
  void update(const replay::Batch& batch, const Average& average) override;
  void scale_rates(double factor) override;
  [[nodiscard]] at::Tensor measured() const override;
  [[nodiscard]] nets::NamedTensors state() override;
  void state_changed() override;
  [[nodiscard]] nets::NamedTensors exported_actor() override { return actor_.online.named(); }
  [[nodiscard]] nets::NamedTensors exported_critic() override { return critic_.online.named(); }
  void start_from_exported() override;

  /// The four networks, for tests.
  [[nodiscard]] nets::BicnetNet& actor() { return actor_.online; }
  [[nodiscard]] nets::BicnetNet& critic() { return critic_.online; }
  [[nodiscard]] nets::BicnetNet& actor_target() { return actor_.target; }
  [[nodiscard]] nets::BicnetNet& critic_target() { return critic_.target; }

 private:
  // A network, its target, and what moves them.
  struct Pair {
    Pair(const nets::BicnetShape& shape, double learning_rate, std::uint64_t seed, at::Device device,
         bool by_library);
    void refresh();
    // Adam's step with the gradient's mean over ranks; the target's behind it, unless `tau` is empty.
    void step(const Average& average, double max_norm, std::optional<double> tau);

    nets::BicnetNet online, target;
    nets::BicnetMaps maps, target_maps;
    nets::FlatParameters gradient;
    Adam adam;
    nets::BicnetPass pass;
    at::Tensor norm;  // 0-dim, of the last gradient before clipping
  };

  const at::Tensor& action_values(const at::Tensor& observations) override;
  void critic_gradient(const replay::Batch& batch, const at::Tensor& observation);
  void actor_gradient(const at::Tensor& observation);

  LearnerOptions options_;
  Pair actor_, critic_;
  nets::BicnetPass act_pass_;
  at::Tensor act_output_;
  at::Tensor critic_input_, d_q_, d_action_;  // [3, B, D + 5], [3, B, 1], [3, B, 4]
  at::Tensor critic_loss_, q_mean_, actor_loss_;
  std::int64_t updates_ = 0;
  at::Tensor updates_tensor_;  // the same as part of the state
};

}  // namespace snake_ddp::learners
