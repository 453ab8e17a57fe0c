// Parallelised Q-network: the Q-network of dqn.cpp, learned from what all boards have just played, by lambda-returns
// and without replay or target network; layer norm keeps it stable. As `pqn_vdn` it learns a team's value, the sum
// over its snakes.
// Follows  Gallici et al., "Simplifying deep temporal difference learning", arXiv:2407.04811, algorithm 1. See
//          docs/learners/pqn.md for the equations and differences.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <optional>
#include <vector>

#include "entries.hpp"
#include "q_learner.hpp"

namespace snake_ddp::learners {

namespace {

class Pqn final : public QLearnerWith<nets::Mlp, nets::MlpPolicy> {
 public:
  explicit Pqn(const LearnerOptions& o)
      : QLearnerWith(o, o.algo == "pqn_vdn" ? Value::kSum : Value::kSnake, kReward,
                     q_net(o, /*layer_norm=*/true), std::nullopt) {}

  // L = mean e^2 / 2, e = Q(s, a) - G, over snakes or over teams; the return G is in the place of the reward.
  void update(const Batch& batch, const Average& average) override {
    const c10::NoGradGuard no_grad;
    const Transitions t = transitions_of(batch, options_.device);
    nets::forward(q_.net, t.observation, pass_);
    const at::Tensor error = of_learned((pass_.output * t.action).sum(1, true) - t.reward);
    loss_ = error.square().mean() * 0.5;
    q_mean_ = pass_.output.mean();
    const at::Tensor d_chosen = of_snakes(error / static_cast<double>(error.size(0)));
    nets::backward(q_.net, t.observation, t.action * d_chosen, pass_, q_.gradient);
    norm_ = q_.step(average);
  }

 private:
  nets::MlpPass pass_;
};

}  // namespace

std::vector<LearnerEntry> pqn_entries() {
  const LearnerEntry pqn = {.name = "pqn",
                            .make = make<Pqn>,
                            .flags = flags_of<NetFlags, MirrorFlags, RolloutFlags>,
                            .feed = Feed::kRollout,
                            .device_boards = true,
                            .cuda_graphs = true,
                            .low_precision = true,
                            .searches = true,
                            // A rollout of one board would be short of a batch, and its rows alike.
                            .defaults = {{"num_envs", std::int64_t{128}}}};
  LearnerEntry pqn_vdn = pqn;
  pqn_vdn.name = "pqn_vdn", pqn_vdn.team_value = true;
  pqn_vdn.defaults["own_reward"] = 0.0;
  return {pqn, pqn_vdn};
}

}  // namespace snake_ddp::learners
