// Parallelised Q-network: the Q-network of dqn.cpp, learned from what all boards have just played, by lambda-returns
// and without replay or target network; layer norm keeps it stable. As `pqn_vdn` it learns a team's value, the sum
// over its snakes.
// Follows  Gallici et al., "Simplifying deep temporal difference learning", arXiv:2407.04811, algorithm 1. See
//          docs/learners/pqn.md for the equations and differences.
#include "snake_ddp/learners/pqn.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "entries.hpp"
#include "q_learner.hpp"

namespace snake_ddp::learners {

namespace {

// The row of the same game's transition before row i, `steps` rows earlier; none before the game's first, or in an earlier rollout.
std::optional<std::int64_t> row_before(std::int64_t i, float steps) {
  const auto before = i - static_cast<std::int64_t>(steps);
  if (before == i || before < 0) return std::nullopt;
  return before;
}

}  // namespace

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
    const auto before = row_before(i, steps[i]);
    if (!before) continue;
    for (std::int64_t k = 0; k < width; ++k) {
      const std::int64_t to = *before * width + k;
      g[to] = r[to] + d[to] * (v[to] + long_part * (g[i * width + k] - v[to]));
    }
  }
  return returns;
}

namespace {

class Pqn final : public QLearnerWith<nets::Mlp, nets::MlpPolicy> {
 public:
  explicit Pqn(const LearnerOptions& o)
      : QLearnerWith(o, o.algo == "pqn_vdn" ? Value::kSum : Value::kSnake, kValue,
                     q_net(o, /*layer_norm=*/true), std::nullopt) {}

  // Fills the first three columns, with the return as reward.
  void prepare(replay::Buffer& played, replay::Batch& rows) override {
    const c10::NoGradGuard no_grad;
    const at::Tensor order = played.oldest_first();
    rows.columns.resize(kReward + 1);
    for (const Column column : {kObservation, kAction})
      played.gather_column(column, order, rows.columns[column]);
    const at::Tensor back = gathered(played, kBack, order);
    rows.columns[kReward] =
        lambda_returns(gathered(played, kReward, order), gathered(played, kDiscount, order),
                       next_values(played, order, back), back, options_.td_lambda);
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
  static at::Tensor gathered(replay::Buffer& played, Column column, const at::Tensor& indices) {
    at::Tensor out;
    played.gather_column(column, indices, out);
    return out;
  }

  // The values of the boards after each transition: those that the network had when it played on. Where a game ended, or goes
  // on after the rollout, it is asked now.
  at::Tensor next_values(replay::Buffer& played, const at::Tensor& order, const at::Tensor& back) {
    const std::int64_t count = order.size(0);
    const at::Tensor value = gathered(played, kValue, order);
    at::Tensor next = at::empty_like(value);
    std::vector<bool> goes_on(static_cast<std::size_t>(count), false);
    const auto* steps = back.const_data_ptr<float>();
    for (std::int64_t i = 0; i < count; ++i) {
      const auto before = row_before(i, steps[i]);
      if (!before) continue;
      goes_on[static_cast<std::size_t>(*before)] = true;
      std::copy_n(value.const_data_ptr<float>() + i * kTeam, kTeam, next.data_ptr<float>() + *before * kTeam);
    }
    std::vector<std::int64_t> last;
    for (std::int64_t i = 0; i < count; ++i)
      if (!goes_on[static_cast<std::size_t>(i)]) last.push_back(i);
    const at::Tensor ends = at::tensor(last, at::kLong), slots = order.index_select(0, ends);
    const auto of_snakes = [&](Column column) {
      const at::Tensor t = gathered(played, column, slots);
      return t.view({-1, t.size(-1)}).to(options_.device);
    };
    next_pass_.row_by_row = true;  // the bits that it would have had when playing
    nets::forward(q_.net, of_snakes(kNextObservation), next_pass_, /*keep=*/false);
    const at::Tensor best =
        next_pass_.output.masked_fill(of_snakes(kNextMoves) <= 0, -std::numeric_limits<float>::infinity())
            .amax(1);
    return next.index_copy_(0, ends, best.to(at::kCPU).view({-1, kTeam}));
  }

  nets::MlpPass pass_, next_pass_;
};

}  // namespace

std::vector<LearnerEntry> pqn_entries() {
  const LearnerEntry pqn = {.name = "pqn",
                            .make = make<Pqn>,
                            .flags = flags_of<NetFlags, MirrorFlags, RolloutFlags>,
                            .feed = Feed::kRollout,
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
