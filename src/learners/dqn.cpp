#include "snake_ddp/learners/dqn.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <limits>

#include "entries.hpp"

namespace snake_ddp::learners {
namespace {

nets::MlpShape shape_of(const LearnerOptions& o) {
  return {o.features, o.hidden_size, kActions, o.layer_norm};
}

}  // namespace

Dqn::Dqn(const LearnerOptions& options)
    : options_(options),
      value_(options.algo == "qmix"  ? Value::kMixed
             : options.algo == "vdn" ? Value::kSum
                                     : Value::kSnake),
      net_(shape_of(options), options.device, nets::kQNetName, options.library_products),
      target_(shape_of(options), options.device, nets::kQNetName, options.library_products),
      gradient_(net_.parameters().like()),
      adam_(net_.parameters(), options.c_lr, net_.by_library()) {
  const c10::NoGradGuard no_grad;
  net_.init(options.seed);
  const auto scalar = at::TensorOptions().dtype(at::kFloat).device(options.device);
  for (at::Tensor* t : {&loss_, &q_mean_, &norm_}) *t = at::zeros({}, scalar);
  if (value_ == Value::kMixed) mixing_.emplace(options);
  target_.parameters().flat().copy_(net_.parameters().flat());
}

void Dqn::scale_rates(double factor) {
  for (Adam* adam : {&adam_, mixing_ ? &mixing_->adam : nullptr}) {
    if (adam == nullptr) continue;
    adam->learning_rate = factor * options_.c_lr;
    adam->publish_rate();
  }
}

// QMIX's files have no targets: these start as what was read.
void Dqn::start_from_exported() {
  const c10::NoGradGuard no_grad;
  adam_.reset();
  if (!mixing_) return;
  target_.parameters().flat().copy_(net_.parameters().flat());
  mixing_->start();
}

nets::NamedTensors Dqn::exported_critic() { return mixing_ ? mixing_->mixer.named() : target_.named(); }

std::vector<replay::Column> dqn_columns(const LearnerOptions& o, bool linked) {
  std::vector<replay::Column> columns = {{"observation", {kTeam, o.features + 1}},
                                         {"action", {kTeam, kActions}},
                                         {"reward", {kTeam}},
                                         {"next_observation", {kTeam, o.features + 1}},
                                         {"discount", {kTeam}},
                                         {"next_moves", {kTeam, kActions}}};
  if (linked) columns.push_back({"back", {1}});
  return columns;
}

std::vector<replay::Column> Dqn::columns() const { return dqn_columns(options_, /*linked=*/false); }

// Q'(s', argmax over allowed moves of Q(s')), [rows, 1].
at::Tensor Dqn::next_values(const replay::Batch& batch, std::int64_t rows) {
  const at::Tensor next =
      batch.columns[kNextObservation].view({rows, options_.features + 1}).to(options_.device);
  nets::forward(net_, next, next_pass_);
  nets::forward(target_, next, target_pass_);
  const at::Tensor moves = batch.columns[kNextMoves].view({rows, kActions}).to(options_.device);
  const at::Tensor choice =
      next_pass_.output.masked_fill(moves <= 0, -std::numeric_limits<float>::infinity()).argmax(1, true);
  return target_pass_.output.gather(1, choice);
}

// Value less r + discount * next value: of snakes [rows, 1], or of teams [B, 1].
at::Tensor Dqn::errors(const replay::Batch& batch, const at::Tensor& chosen, const at::Tensor& next) {
  const std::int64_t rows = chosen.size(0), teams = rows / kTeam;
  const at::Tensor reward = batch.columns[kReward].view({rows, 1}).to(options_.device);
  const at::Tensor discount = batch.columns[kDiscount].view({rows, 1}).to(options_.device);
  if (value_ != Value::kMixed) {
    const at::Tensor error = chosen - at::addcmul(reward, discount, next);
    return value_ == Value::kSnake ? error : error.view({teams, kTeam}).sum(1, true);
  }
  const auto state = [&](std::size_t column) {
    return batch.columns[column].view({teams, kTeam * (options_.features + 1)}).to(options_.device);
  };
  nets::forward(mixing_->mixer, state(kObservation), chosen.view({teams, kTeam}), mixing_->pass);
  nets::forward(mixing_->target, state(kNextObservation), next.view({teams, kTeam}), mixing_->target_pass);
  const at::Tensor team_reward = reward.view({teams, kTeam}).sum(1, true);
  // A team's snakes come to their ends together.
  const at::Tensor team_discount = discount.view({teams, kTeam}).narrow(1, 0, 1);
  return mixing_->pass.output - at::addcmul(team_reward, team_discount, mixing_->target_pass.output);
}

// dL/d(chosen) [rows, 1]; with QMIX the mixing network's gradient is written, too.
at::Tensor Dqn::chosen_gradient(const replay::Batch& batch, const at::Tensor& chosen,
                                const at::Tensor& d_error) {
  const std::int64_t rows = chosen.size(0), teams = rows / kTeam;
  switch (value_) {
    case Value::kSnake:
      return d_error;
    case Value::kSum:
      return d_error.expand({-1, kTeam}).reshape({rows, 1});
    case Value::kMixed:
      break;
  }
  const at::Tensor state =
      batch.columns[kObservation].view({teams, kTeam * (options_.features + 1)}).to(options_.device);
  return nets::backward(mixing_->mixer, state, chosen.view({teams, kTeam}), d_error, mixing_->pass,
                        mixing_->gradient)
      .reshape({rows, 1});
}

// L = mean Huber(error), over snakes or over teams.
void Dqn::update(const replay::Batch& batch, const Average& average) {
  const c10::NoGradGuard no_grad;
  const std::int64_t rows = batch.columns.at(kObservation).size(0) * kTeam;
  const at::Tensor next = next_values(batch, rows);
  const at::Tensor observation =
      batch.columns[kObservation].view({rows, options_.features + 1}).to(options_.device);
  const at::Tensor action = batch.columns[kAction].view({rows, kActions}).to(options_.device);
  nets::forward(net_, observation, pass_);
  const at::Tensor chosen = (pass_.output * action).sum(1, true);
  const at::Tensor error = errors(batch, chosen, next);
  const at::Tensor slope = error.clamp(-1.0, 1.0);  // dHuber/derror
  // Huber(e) = slope * (e - slope / 2) in both of its parts.
  loss_ = (slope * (error - slope * 0.5)).mean();
  q_mean_ = pass_.output.mean();
  const at::Tensor d_chosen = chosen_gradient(batch, chosen, slope / static_cast<double>(error.size(0)));
  nets::backward(net_, observation, action * d_chosen, pass_, gradient_);
  average(gradient_.flat());
  norm_ = adam_.step(net_.parameters().flat(), gradient_.flat(), options_.max_grad_norm,
                     target_.parameters().flat(), options_.tau);
  if (!mixing_) return;
  mixing_->step(average, options_);
}

at::Tensor Dqn::measured() const { return measured_values(loss_, norm_, q_mean_); }

nets::NamedTensors Dqn::state() {
  nets::NamedTensors out;
  nets::add_under(out, "net.", net_.named());
  nets::add_under(out, "net_target.", target_.named());
  add_adam(out, "adam.", net_, adam_);
  if (mixing_) mixing_->add_state(out);
  return out;
}

const at::Tensor& Dqn::action_values(const at::Tensor& observations) {
  const c10::NoGradGuard no_grad;
  const std::int64_t rows = observations.size(0) * kTeam;
  // Who asks from the learner's device always asks for as many: a recording has the addresses of that pass, which must not
  // change when others ask for more.
  nets::MlpPass& pass = observations.is_cpu() ? act_pass_ : play_pass_;
  nets::forward(net_, observations.view({rows, options_.features + 1}).to(options_.device), pass);
  // Back to where the question came from.
  act_output_ = pass.output.to(observations.device()).view({observations.size(0), kTeam, kActions});
  return act_output_;
}

std::vector<LearnerEntry> dqn_entries() {
  const LearnerEntry dqn = {.name = "dqn",
                            .make = make<Dqn>,
                            .flags = flags_of<NetFlags, TargetFlags, LayerNormFlags>,
                            .n_step = true,
                            .device_boards = true,
                            .cuda_graphs = true,
                            .low_precision = true,
                            .tokens = true};
  LearnerEntry qmix = dqn, vdn = dqn;
  qmix.name = "qmix", vdn.name = "vdn";
  return {dqn, qmix, vdn};
}

}  // namespace snake_ddp::learners
