// Parallelised Q-network: the Q-network of dqn.cpp, learned from what all boards have just played, by lambda-returns
// and without replay or target network; layer norm keeps it stable. As `pqn_vdn` it learns a team's value, the sum
// over its snakes.
// Follows  Gallici et al., "Simplifying deep temporal difference learning", arXiv:2407.04811, algorithm 1. See
//          docs/learners/pqn.md for the equations and differences.
#include "snake_ddp/learners/pqn.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <limits>

#include "entries.hpp"
#include "q_learner.hpp"

namespace snake_ddp::learners {

at::Tensor lambda_returns(const at::Tensor& reward, const at::Tensor& discount, const at::Tensor& value,
                          const at::Tensor& back, double lambda) {
  const std::int64_t rows = reward.size(0), width = reward.size(1);
  at::Tensor returns = at::addcmul(reward, discount, value);
  const auto long_part = static_cast<float>(lambda);
  const auto *r = reward.const_data_ptr<float>(), *d = discount.const_data_ptr<float>(),
             *v = value.const_data_ptr<float>(), *steps = back.const_data_ptr<float>();
  auto* g = returns.data_ptr<float>();
  // From the newest row on: a row is final once its game's next one has been visited.
  for (std::int64_t i = rows; i-- > 0;) {
    const auto before = i - static_cast<std::int64_t>(steps[i]);
    if (before == i || before < 0) continue;
    for (std::int64_t k = 0; k < width; ++k) {
      const std::int64_t to = before * width + k;
      g[to] = r[to] + d[to] * (v[to] + long_part * (g[i * width + k] - v[to]));
    }
  }
  return returns;
}

namespace {

struct PqnFlags {
  double td_lambda = 0.65;
  config::Fields fields() {
    return config::under(
        "Learning",
        {config::number("td_lambda", &td_lambda,
                        "lambda of the returns; 0: one step, 1: up to the end of the rollout", 0, 1)});
  }
};

class Pqn final : public QLearnerWith<nets::Mlp, nets::MlpPolicy> {
 public:
  explicit Pqn(const LearnerOptions& o)
      : QLearnerWith(o, o.algo == "pqn_vdn" ? Value::kSum : Value::kSnake, kBack,
                     q_net(o, /*layer_norm=*/true), std::nullopt) {}

  // Leaves the first three columns, with the return as reward.
  void prepare(replay::Batch& rollout) override {
    const c10::NoGradGuard no_grad;
    const Transitions t = transitions_of(rollout, options_.device);
    nets::forward(q_.net, t.next_observation, next_pass_, /*keep=*/false);
    const at::Tensor best =
        next_pass_.output.masked_fill(t.next_moves <= 0, -std::numeric_limits<float>::infinity())
            .amax(1)
            .to(at::kCPU)
            .view({-1, kTeam});
    rollout.columns[kReward] = lambda_returns(rollout.columns[kReward], rollout.columns[kDiscount], best,
                                              rollout.columns[kBack], options_.read<PqnFlags>().td_lambda);
    rollout.columns.resize(kReward + 1);
  }

  // L = mean e^2 / 2, e = Q(s, a) - G, over snakes or over teams.
  void update(const replay::Batch& batch, const Average& average) override {
    const c10::NoGradGuard no_grad;
    const Transitions t = transitions_of(batch, options_.device);
    nets::forward(q_.net, t.observation, pass_);
    const at::Tensor error = of_learned((pass_.output * t.action).sum(1, true) - t.reward);
    loss_ = error.square().mean() * 0.5;
    q_mean_ = pass_.output.mean();
    const at::Tensor d_chosen = of_snakes(error / static_cast<double>(error.size(0)));
    nets::backward(q_.net, t.observation, t.action * d_chosen, pass_, q_.gradient);
    step(average);
  }

 private:
  nets::MlpPass pass_, next_pass_;
};

}  // namespace

std::vector<LearnerEntry> pqn_entries() {
  const LearnerEntry pqn = {.name = "pqn",
                            .make = make<Pqn>,
                            .flags = flags_of<NetFlags, MirrorFlags, PqnFlags>,
                            .feed = Feed::kRollout,
                            .low_precision = true,
                            .searches = true};
  LearnerEntry pqn_vdn = pqn;
  pqn_vdn.name = "pqn_vdn";
  return {pqn, pqn_vdn};
}

}  // namespace snake_ddp::learners
