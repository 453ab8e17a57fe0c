#include "snake_ddp/learners/pqn.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <limits>

#include "entries.hpp"

namespace snake_ddp::learners {
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

}  // namespace

at::Tensor lambda_returns(const at::Tensor& reward, const at::Tensor& discount, const at::Tensor& value,
                          const at::Tensor& back, double lambda) {
  const std::int64_t rows = reward.size(0), width = reward.size(1);
  at::Tensor returns = at::addcmul(reward, discount, value);
  const auto long_part = static_cast<float>(lambda);
  const auto *r = reward.const_data_ptr<float>(), *d = discount.const_data_ptr<float>(),
             *v = value.const_data_ptr<float>(), *steps = back.const_data_ptr<float>();
  auto* g = returns.data_ptr<float>();
  // From the newest on: a row is final when its game's next one has been there.
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

Pqn::Pqn(const LearnerOptions& options)
    : options_(options),
      of_teams_(options.algo == "pqn_vdn"),
      net_({options.features, options.hidden_size, kActions, /*layer_norm=*/true}, options.device,
           nets::kQNetName, options.library_products),
      gradient_(net_.parameters().like()),
      adam_(net_.parameters(), options.c_lr, net_.by_library()) {
  net_.init(options.seed);
  const auto scalar = at::TensorOptions().dtype(at::kFloat).device(options.device);
  for (at::Tensor* t : {&loss_, &q_mean_, &norm_}) *t = at::zeros({}, scalar);
}

std::vector<replay::Column> Pqn::columns() const { return dqn_columns(options_, /*linked=*/true); }

void Pqn::prepare(replay::Batch& rollout) {
  const c10::NoGradGuard no_grad;
  const std::int64_t transitions = rollout.columns.at(kBack).size(0), rows = transitions * kTeam;
  const at::Tensor next =
      rollout.columns[kNextObservation].view({rows, options_.features + 1}).to(options_.device);
  nets::forward(net_, next, next_pass_);
  const at::Tensor shut = rollout.columns[kNextMoves].view({rows, kActions}) <= 0;
  const at::Tensor best =
      next_pass_.output.to(at::kCPU).masked_fill(shut, -std::numeric_limits<float>::infinity()).amax(1);
  rollout.columns[kReward] =
      lambda_returns(rollout.columns[kReward], rollout.columns[kDiscount], best.view({transitions, kTeam}),
                     rollout.columns[kBack], options_.read<PqnFlags>().td_lambda);
  rollout.columns.resize(kReward + 1);
}

// L = mean e^2 / 2, e = Q(s, a) - G, over snakes or over teams.
void Pqn::update(const replay::Batch& batch, const Average& average) {
  const c10::NoGradGuard no_grad;
  const std::int64_t teams = batch.columns.at(kObservation).size(0), rows = teams * kTeam;
  const at::Tensor observation =
      batch.columns[kObservation].view({rows, options_.features + 1}).to(options_.device);
  const at::Tensor action = batch.columns[kAction].view({rows, kActions}).to(options_.device);
  nets::forward(net_, observation, pass_);
  at::Tensor error =
      (pass_.output * action).sum(1, true) - batch.columns[kReward].view({rows, 1}).to(options_.device);
  if (of_teams_) error = error.view({teams, kTeam}).sum(1, true);
  loss_ = error.square().mean() * 0.5;
  q_mean_ = pass_.output.mean();
  at::Tensor d_chosen = error / static_cast<double>(error.size(0));
  if (of_teams_) d_chosen = d_chosen.expand({-1, kTeam}).reshape({rows, 1});
  nets::backward(net_, observation, action * d_chosen, pass_, gradient_);
  average(gradient_.flat());
  norm_ = adam_.step(net_.parameters().flat(), gradient_.flat(), options_.max_grad_norm);
}

void Pqn::scale_rates(double factor) { adam_.learning_rate = factor * options_.c_lr; }

at::Tensor Pqn::measured() const { return measured_values(loss_, norm_, q_mean_); }

nets::NamedTensors Pqn::state() {
  nets::NamedTensors out;
  nets::add_under(out, "net.", net_.named());
  add_adam(out, "adam.", net_, adam_);
  return out;
}

const at::Tensor& Pqn::action_values(const at::Tensor& observations) {
  const c10::NoGradGuard no_grad;
  const std::int64_t rows = observations.size(0) * kTeam;
  nets::forward(net_, observations.view({rows, options_.features + 1}).to(options_.device), act_pass_);
  act_output_ = act_pass_.output.to(at::kCPU).view({observations.size(0), kTeam, kActions});
  return act_output_;
}

std::vector<LearnerEntry> pqn_entries() {
  const LearnerEntry pqn = {
      .name = "pqn", .make = make<Pqn>, .flags = flags_of<NetFlags, PqnFlags>, .feed = Feed::kRollout};
  LearnerEntry pqn_vdn = pqn;
  pqn_vdn.name = "pqn_vdn";
  return {pqn, pqn_vdn};
}

}  // namespace snake_ddp::learners
