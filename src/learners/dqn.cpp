#include "snake_ddp/learners/dqn.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <limits>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::learners {
namespace {

nets::MlpShape shape_of(const LearnerOptions& o) {
  return {o.features, o.hidden_size, kActions, o.layer_norm};
}

void add_under(nets::NamedTensors& out, const std::string& prefix, const nets::NamedTensors& items) {
  for (const auto& [name, tensor] : items) out.emplace_back(prefix + name, tensor);
}

}  // namespace

void Dqn::check(const LearnerOptions& o) {
  const std::pair<bool, const char*> not_ours[] = {{o.expected_value, "--expected_value"},
                                                   {o.clipped_double_critics, "--clipped_double_critics"},
                                                   {o.coalesced_update, "--coalesced_update"}};
  for (const auto& [asked, name] : not_ours) {
    if (asked)
      throw base::UsageError(std::string(name) + " is about actors and critics; --algo " + o.algo +
                             " has one network: leave it out");
  }
}

Dqn::Dqn(const LearnerOptions& options)
    : options_(options),
      sums_teams_(options.algo == "vdn"),
      net_(shape_of(options), options.device, nets::kQNetName, options.library_products),
      target_(shape_of(options), options.device, nets::kQNetName, options.library_products),
      gradient_(net_.parameters().like()),
      adam_(net_.parameters(), options.c_lr, net_.by_library()) {
  check(options);
  const c10::NoGradGuard no_grad;
  net_.init(options.seed);
  const auto scalar = at::TensorOptions().dtype(at::kFloat).device(options.device);
  for (at::Tensor* t : {&loss_, &q_mean_, &norm_}) *t = at::zeros({}, scalar);
  target_.parameters().flat().copy_(net_.parameters().flat());
}

void Dqn::start_from_exported() {
  const c10::NoGradGuard no_grad;
  adam_.reset();
}

std::vector<replay::Column> Dqn::columns() const {
  return {{"observation", {kTeam, options_.features + 1}},
          {"action", {kTeam, kActions}},
          {"reward", {kTeam}},
          {"next_observation", {kTeam, options_.features + 1}},
          {"discount", {kTeam}},
          {"next_moves", {kTeam, kActions}}};
}

// r + discount * Q'(s', argmax over allowed moves of Q(s')), [rows, 1].
at::Tensor Dqn::target_values(const replay::Batch& batch, std::int64_t rows) {
  const at::Tensor next =
      batch.columns[kNextObservation].view({rows, options_.features + 1}).to(options_.device);
  nets::forward(net_, next, next_pass_);
  nets::forward(target_, next, target_pass_);
  const at::Tensor moves = batch.columns[kNextMoves].view({rows, kActions}).to(options_.device);
  const at::Tensor choice =
      next_pass_.output.masked_fill(moves <= 0, -std::numeric_limits<float>::infinity()).argmax(1, true);
  const at::Tensor reward = batch.columns[kReward].view({rows, 1}).to(options_.device);
  const at::Tensor discount = batch.columns[kDiscount].view({rows, 1}).to(options_.device);
  return at::addcmul(reward, discount, target_pass_.output.gather(1, choice));
}

// L = mean Huber(Q(s, a) - y), over snakes; with VDN over teams, whose values and targets are sums of their snakes'.
void Dqn::update(const replay::Batch& batch, const Average& average) {
  const c10::NoGradGuard no_grad;
  const std::int64_t rows = batch.columns.at(kObservation).size(0) * kTeam;
  const at::Tensor target = target_values(batch, rows);
  const at::Tensor observation =
      batch.columns[kObservation].view({rows, options_.features + 1}).to(options_.device);
  const at::Tensor action = batch.columns[kAction].view({rows, kActions}).to(options_.device);
  nets::forward(net_, observation, pass_);
  at::Tensor error = (pass_.output * action).sum(1, true).sub_(target);
  if (sums_teams_) error = error.view({rows / kTeam, kTeam}).sum(1, true);
  const at::Tensor slope = error.clamp(-1.0, 1.0);  // dHuber/derror
  // Huber(e) = slope * (e - slope / 2) in both of its parts.
  loss_ = (slope * (error - slope * 0.5)).mean();
  q_mean_ = pass_.output.mean();
  at::Tensor d_error = slope / static_cast<double>(error.size(0));
  if (sums_teams_) d_error = d_error.expand({-1, kTeam}).reshape({rows, 1});
  const at::Tensor d_output = action * d_error;
  nets::backward(net_, observation, d_output, pass_, gradient_);
  average(gradient_.flat());
  norm_ = adam_.step(net_.parameters().flat(), gradient_.flat(), options_.max_grad_norm,
                     target_.parameters().flat(), options_.tau);
}

UpdateStats Dqn::stats() const {
  return {0.0, loss_.item<double>(), 0.0, norm_.item<double>(), q_mean_.item<double>()};
}

nets::NamedTensors Dqn::state() {
  nets::NamedTensors out;
  add_under(out, "net.", net_.named());
  add_under(out, "net_target.", target_.named());
  add_under(out, "adam.first.", net_.named_views(adam_.first_moment));
  add_under(out, "adam.second.", net_.named_views(adam_.second_moment));
  out.emplace_back("adam.steps", adam_.steps);
  return out;
}

const at::Tensor& Dqn::action_values(const at::Tensor& observations) {
  const c10::NoGradGuard no_grad;
  const std::int64_t rows = observations.size(0) * kTeam;
  nets::forward(net_, observations.view({rows, options_.features + 1}).to(options_.device), act_pass_);
  act_output_ = act_pass_.output.to(at::kCPU).view({observations.size(0), kTeam, kActions});
  return act_output_;
}

}  // namespace snake_ddp::learners
