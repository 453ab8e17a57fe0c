// Deep deterministic policy gradient, one actor and one critic shared by the three snakes.
// Follows  Lillicrap et al., "Continuous control with deep reinforcement learning", arXiv:1509.02971, as the
//          reference implementation of the game has it: see docs/learners/ddpg.md for the equations and
//          differences.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "snake_ddp/learners/columns.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/learners/registry.hpp"
#include "snake_ddp/learners/trainee.hpp"
#include "snake_ddp/nets/dense.hpp"
#include "snake_ddp/nets/dense_rows.hpp"
#include "snake_ddp/nets/net_policies.hpp"

namespace snake_ddp::learners {

/// A network that is trained, with the buffers of its passes.
struct DdpgTrainee : Trainee<nets::DenseNet> {
  DdpgTrainee(const LearnerOptions& options, const nets::DenseShape& shape, double learning_rate,
              std::uint64_t seed);
  /// Must be called after weights or targets were written.
  void refresh();
  void refresh_target();

  bool library;
  // For the library's products, and for our own; only the one in use is kept up to date.
  nets::Folded folded, target_folded;
  nets::DenseRows rows, target_rows;
  nets::FoldedGradient folded_gradient;  // what is averaged; `gradient` is made from it
};

struct DdpgRows;
struct DdpgWhole;

class Ddpg final : public Learner {
 public:
  explicit Ddpg(const LearnerOptions& options);

  [[nodiscard]] std::vector<replay::Column> columns() const override;
  [[nodiscard]] nets::Policy& policy() override { return *policy_; }
  void update(const replay::Batch& batch, const Average& average) override;
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
  void step(DdpgTrainee& trainee);

  // ddpg_rows.cpp: chunks of rows through our own products.
  void prepare_rows();
  void unfold_in_rows(DdpgTrainee& trainee);
  void critic_gradient_in_rows(const replay::Batch& batch);
  void actor_gradient_in_rows(const replay::Batch& batch);

  // ddpg_library.cpp: whole batches through the library's, on any device.
  void critic_gradient_by_library(const replay::Batch& batch);
  void actor_gradient_by_library(const replay::Batch& batch);
  [[nodiscard]] at::Tensor next_values_by_library(const at::Tensor& next);

  LearnerOptions options_;
  bool by_library_;
  DdpgTrainee actor_, critic_;
  std::shared_ptr<DdpgRows> rows_;    // scratch of one path
  std::shared_ptr<DdpgWhole> whole_;  // of the other
  std::optional<nets::DensePolicy> policy_;
  at::Tensor critic_loss_, q_mean_, actor_loss_;  // 0-dim
  at::Tensor updates_;                            // 0-dim, their number
};

}  // namespace snake_ddp::learners
