// What Q-learners share: columns, acting, double Q-learning's error, reports and state. A variant defines its network
// and writes `update`.
#pragma once

#include <c10/core/GradMode.h>

#include <optional>
#include <vector>

#include "learners/columns.hpp"
#include "learners/learner.hpp"
#include "learners/trainee.hpp"
#include "nets/mixer.hpp"
#include "nets/mlp.hpp"
#include "nets/net_policies.hpp"

namespace snake_ddp::learners {

/// Which value is learned, a snake's or a team's, and how it is computed.
enum class Value {
  kSnake,
  kSum,    // a team's, the sum over its snakes (VDN)
  kMixed,  // a team's, by a mixing network (QMIX)
};

/// An update's transitions on the learner's device, a row for each snake, a team's snakes side by side.
struct Transitions {
  at::Tensor observation, action;           // [R, D + 1], [R, 4]
  at::Tensor reward, discount;              // [R, 1]
  at::Tensor next_observation, next_moves;  // [R, D + 1], [R, 4]
};

/// Columns as rows of `Transitions`.
Transitions transitions_of(const Batch& batch, at::Device device);

/// The feed-forward network of these options.
nets::Mlp q_net(const LearnerOptions& options, bool layer_norm);

/// The part that does not depend on the kind of network.
class QLearner : public Learner {
 public:
  [[nodiscard]] std::vector<Column> columns() const override {
    return columns_up_to(last_column_, options_.features);
  }
  [[nodiscard]] at::Tensor measured() const override;

 protected:
  QLearner(const LearnerOptions& options, Value value, TransitionColumn last_column);

  /// Errors of snakes as errors of the values that are learned: [R, 1] -> [R, 1] or [R / 3, 1]. Not for kMixed.
  [[nodiscard]] at::Tensor of_learned(const at::Tensor& errors) const;
  /// The reverse: a gradient of these as one of snakes' values, [R, 1].
  [[nodiscard]] at::Tensor of_snakes(const at::Tensor& gradient) const;

  /// Gradient of the mean Huber loss of double Q-learning (van Hasselt et al., arXiv:1509.06461); with a mixing network
  /// its gradient is written, too. Keeps the loss and the mean value for reports.
  /// Shapes  values of the observations, [R, 4]; online and target values of the next ones, likewise; `counts` [R / 3, 1]
  ///         is 0 for teams that are left out of the loss's sum. Returns dL/dvalues [R, 4].
  at::Tensor double_q_gradient(const Transitions& t, const at::Tensor& values, const at::Tensor& next_online,
                               const at::Tensor& next_target, const at::Tensor& counts = {});

  /// The mixing network of QMIX.
  struct Mixing : Trainee<nets::Mixer> {
    explicit Mixing(const LearnerOptions& options);
    nets::MixerPass pass, target_pass;
  };

  LearnerOptions options_;
  Value value_;
  std::optional<Mixing> mixing_;
  at::Tensor loss_, q_mean_, norm_;  // 0-dim

 private:
  at::Tensor errors(const Transitions& t, const at::Tensor& chosen, const at::Tensor& next);
  at::Tensor double_q_by_kernel(const Transitions& t, const at::Tensor& values, const at::Tensor& next_online,
                                const at::Tensor& next_target);

  TransitionColumn last_column_;
};

/// With the network `Net`, played by `NetPolicy`.
template <class Net, class NetPolicy>
class QLearnerWith : public QLearner {
 public:
  QLearnerWith(const LearnerOptions& options, Value value, TransitionColumn last_column, Net fresh,
               std::optional<Net> follower)
      : QLearner(options, value, last_column),
        q_(options, options.c_lr, options.seed, std::move(fresh), std::move(follower)),
        policy_(q_.net) {}

  [[nodiscard]] nets::Policy& policy() override { return policy_; }
  void scale_rates(double factor) override {
    q_.scale_rate(factor);
    if (mixing_) mixing_->scale_rate(factor);
  }
  [[nodiscard]] nets::NamedTensors state() override {
    nets::NamedTensors out;
    q_.add_state(out, "net.", "net_target.", "adam.");
    if (mixing_) mixing_->add_state(out, "", "target.", "mixer_adam.");
    return out;
  }
  [[nodiscard]] std::vector<Trained> trained() override {
    std::vector<Trained> all{q_.trained()};
    if (mixing_) all.push_back(mixing_->trained());
    return all;
  }
  /// The network; and its mixing network, or else its target, or else the network again.
  [[nodiscard]] nets::NamedTensors exported_actor() override { return q_.net.named(); }
  [[nodiscard]] nets::NamedTensors exported_critic() override {
    if (mixing_) return mixing_->net.named();
    return q_.has_target() ? q_.target().named() : q_.net.named();
  }
  /// For files without a target: it starts as a copy of the network that was read.
  void start_from_exported() override {
    const c10::NoGradGuard no_grad;
    q_.keep_symmetry();
    if (!mixing_) return q_.adam.reset();
    q_.start();
    mixing_->start();
  }
  void state_changed() override {
    const c10::NoGradGuard no_grad;
    q_.keep_symmetry();
  }

 protected:
  Trainee<Net> q_;

 private:
  NetPolicy policy_;
};

}  // namespace snake_ddp::learners
