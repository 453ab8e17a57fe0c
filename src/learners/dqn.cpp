// Deep Q-network: one network for the three snakes that values the four moves, learned by double Q-learning on n-step
// returns. As `vdn` it learns a team's value, the sum over its snakes (value decomposition network); as `qmix` a
// mixing network computes the team's value from the snakes' and the state.
// Follows  Mnih et al., "Human-level control through deep reinforcement learning", Nature 518 (2015); van Hasselt, Guez
//          and Silver, "Deep reinforcement learning with double Q-learning", arXiv:1509.06461; Sunehag et al.,
//          "Value-decomposition networks for cooperative multi-agent learning", arXiv:1706.05296; Rashid et al., "QMIX", arXiv:1803.11485. See
//          docs/learners/dqn.md for the equations and differences.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "entries.hpp"
#include "q_learner.hpp"

namespace snake_ddp::learners {
namespace {

Value value_of(const std::string& algo) {
  return algo == "qmix" ? Value::kMixed : algo == "vdn" ? Value::kSum : Value::kSnake;
}

class Dqn final : public QLearnerWith<nets::Mlp, nets::MlpPolicy> {
 public:
  explicit Dqn(const LearnerOptions& o)
      : QLearnerWith(o, value_of(o.algo), kNextMoves, q_net(o, o.layer_norm), q_net(o, o.layer_norm)) {}

  // L = mean Huber(error), over snakes or over teams.
  void update(const Batch& batch, const Average& average) override {
    const c10::NoGradGuard no_grad;
    const Transitions t = transitions_of(batch, options_.device);
    nets::forward(q_.net, t.next_observation, next_pass_, /*keep=*/false);
    nets::forward(q_.target(), t.next_observation, target_pass_, /*keep=*/false);
    nets::forward(q_.net, t.observation, pass_);
    const at::Tensor gradient = double_q_gradient(t, pass_.output, next_pass_.output, target_pass_.output);
    nets::backward(q_.net, t.observation, gradient, pass_, q_.gradient);
    norm_ = q_.step(average);
    if (mixing_) mixing_->step(average);
  }

 private:
  nets::MlpPass pass_, next_pass_, target_pass_;
};

}  // namespace

std::vector<LearnerEntry> dqn_entries() {
  const LearnerEntry dqn = {.name = "dqn",
                            .make = make<Dqn>,
                            .flags = flags_of<NetFlags, TargetFlags, LayerNormFlags, MirrorFlags>,
                            .n_step = true,
                            .device_boards = true,
                            .cuda_graphs = true,
                            .low_precision = true,
                            .tokens = true,
                            .searches = true};
  LearnerEntry qmix = dqn, vdn = dqn;
  qmix.name = "qmix", vdn.name = "vdn";
  qmix.team_value = vdn.team_value = true;
  qmix.defaults["own_reward"] = 0.0;
  qmix.flags = flags_of<NetFlags, TargetFlags, LayerNormFlags>;  // its mixing network has no symmetry
  return {dqn, qmix, vdn};
}

}  // namespace snake_ddp::learners
