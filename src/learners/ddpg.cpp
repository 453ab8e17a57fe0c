#include "snake_ddp/learners/ddpg.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::learners {
namespace {

constexpr std::int64_t kActions = 4;
constexpr std::int64_t kTeam = 3;
constexpr double kMaxGradNorm = 1.0;
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kAdamEpsilon = 1e-8;

nets::DenseShape actor_shape(const LearnerOptions& o) {
  return {o.features, o.hidden_size, kActions, nets::head_from_name(o.output_activation), false};
}

nets::DenseShape critic_shape(const LearnerOptions& o) {
  return {o.features + kActions, o.hidden_size, 1, nets::Head::kIdentity, o.layer_norm};
}

void add_under(nets::NamedTensors& out, const std::string& prefix, const nets::NamedTensors& items) {
  for (const auto& [name, tensor] : items) out.emplace_back(prefix + name, tensor);
}

}  // namespace

Adam::Adam(const nets::FlatParameters& parameters, double learning_rate_)
    : learning_rate(learning_rate_),
      first_moment(parameters.like()),
      second_moment(parameters.like()),
      steps(at::zeros({}, parameters.flat().options())) {}

at::Tensor Adam::step(at::Tensor& parameters, at::Tensor& gradient, double max_norm) {
  at::Tensor norm = at::linalg_vector_norm(gradient);
  // As torch.nn.utils.clip_grad_norm_ has it; stays on the device.
  gradient.mul_(norm.add(1e-6).reciprocal_().mul_(max_norm).clamp_max_(1.0));
  steps.add_(1);
  at::_fused_adam_({parameters}, {gradient}, {first_moment.flat()}, {second_moment.flat()}, {}, {steps},
                   learning_rate, kBeta1, kBeta2, /*weight_decay=*/0.0, kAdamEpsilon, /*amsgrad=*/false,
                   /*maximize=*/false);
  return norm;
}

Ddpg::Ddpg(const LearnerOptions& options)
    : options_(options),
      actor_(actor_shape(options), options.device),
      critic_(critic_shape(options), options.device),
      actor_target_(actor_shape(options), options.device),
      critic_target_(critic_shape(options), options.device),
      actor_gradient_(actor_.parameters().like()),
      critic_gradient_(critic_.parameters().like()),
      actor_adam_(actor_.parameters(), options.a_lr),
      critic_adam_(critic_.parameters(), options.c_lr),
      actor_folded_(actor_.shape(), options.device),
      critic_folded_(critic_.shape(), options.device),
      target_folded_actor_(actor_.shape(), options.device),
      target_folded_critic_(critic_.shape(), options.device) {
  const c10::NoGradGuard no_grad;
  actor_.init(options.seed * 2);
  critic_.init(options.seed * 2 + 1);
  const auto scalar = at::TensorOptions().dtype(at::kFloat).device(options.device);
  for (at::Tensor* t : {&critic_loss_, &q_mean_, &critic_norm_, &actor_norm_, &actor_loss_})
    *t = at::zeros({}, scalar);
  start_from_exported();
}

void Ddpg::start_from_exported() {
  const c10::NoGradGuard no_grad;
  actor_target_.parameters().flat().copy_(actor_.parameters().flat());
  critic_target_.parameters().flat().copy_(critic_.parameters().flat());
  for (Adam* adam : {&actor_adam_, &critic_adam_}) {
    adam->first_moment.flat().zero_();
    adam->second_moment.flat().zero_();
    adam->steps.zero_();
  }
  state_changed();
}

std::vector<replay::Column> Ddpg::columns() const {
  return {{"observation", {kTeam, options_.features + 1}},
          {"action", {kTeam, kActions}},
          {"reward", {kTeam}},
          {"next_observation", {kTeam, options_.features + 1}},
          {"discount", {kTeam}}};
}

void Ddpg::fit_workspace(std::int64_t rows) {
  if (critic_input_.defined() && critic_input_.size(0) == rows) return;
  const auto floats = at::TensorOptions().dtype(at::kFloat).device(options_.device);
  critic_input_ = at::ones({rows, options_.features + kActions + 1}, floats);
  next_critic_input_ = at::ones_like(critic_input_);
  d_q_ = at::empty({rows, 1}, floats);
  target_q_ = at::empty({rows, 1}, floats);
}

void Ddpg::update(const replay::Batch& batch, const Average& average) {
  const c10::NoGradGuard no_grad;
  const std::int64_t rows = batch.columns.at(kObservation).size(0) * kTeam;
  fit_workspace(rows);
  const at::Tensor observation =
      batch.columns[kObservation].view({rows, options_.features + 1}).to(options_.device);
  learn_critic(batch, observation, average);
  ++updates_;
  if (updates_ % options_.actor_interval != 0) return;
  learn_actor(observation, average);
  actor_target_.parameters().flat().lerp_(actor_.parameters().flat(), options_.tau);
  critic_target_.parameters().flat().lerp_(critic_.parameters().flat(), options_.tau);
  target_folded_actor_.refresh(actor_target_);
  target_folded_critic_.refresh(critic_target_);
}

// Q'(s', mu'(s')) [R, 1].
const at::Tensor& Ddpg::next_values(const at::Tensor& next) {
  const std::int64_t d = options_.features;
  nets::forward(actor_target_, target_folded_actor_, next, target_pass_);
  nets::Pass& q_next = critic_pass_;  // its buffers are free until the online critic's pass
  if (options_.expected_value) {
    nets::forward_moves(critic_target_, target_folded_critic_, next, kActions, q_next, move_values_);
    at::sum_out(q_next.output, move_values_.mul_(target_pass_.output), {1}, /*keepdim=*/true);
  } else {
    next_critic_input_.narrow(1, 0, d).copy_(next.narrow(1, 0, d));
    next_critic_input_.narrow(1, d, kActions).copy_(target_pass_.output);
    nets::forward(critic_target_, target_folded_critic_, next_critic_input_, q_next);
  }
  return q_next.output;
}

// L = mean (Q(s, a) - (r + discount * Q'(s', mu'(s'))))^2
void Ddpg::learn_critic(const replay::Batch& batch, const at::Tensor& observation, const Average& average) {
  const std::int64_t d = options_.features;
  const std::int64_t rows = observation.size(0);
  const at::Tensor next = batch.columns[kNextObservation].view({rows, d + 1}).to(options_.device);
  const at::Tensor reward = batch.columns[kReward].view({rows, 1}).to(options_.device);
  const at::Tensor discount = batch.columns[kDiscount].view({rows, 1}).to(options_.device);
  at::addcmul_out(target_q_, reward, discount, next_values(next));

  critic_input_.narrow(1, 0, d).copy_(observation.narrow(1, 0, d));
  critic_input_.narrow(1, d, kActions).copy_(batch.columns[kAction].view({rows, kActions}));
  nets::forward(critic_, critic_folded_, critic_input_, critic_pass_);
  at::sub_out(d_q_, critic_pass_.output, target_q_);
  const double n = static_cast<double>(rows);
  critic_loss_ = at::dot(d_q_.view(-1), d_q_.view(-1)).div_(n);
  q_mean_ = critic_pass_.output.mean();
  d_q_.mul_(2.0 / n);
  nets::backward_parameters(critic_, critic_input_, d_q_, critic_pass_, critic_gradient_);
  average(critic_gradient_.flat());
  critic_norm_ = critic_adam_.step(critic_.parameters().flat(), critic_gradient_.flat(), kMaxGradNorm);
  critic_folded_.refresh(critic_);
}

// L = -mean Q(s, mu(s)); only the actor's gradient is computed.
void Ddpg::learn_actor(const at::Tensor& observation, const Average& average) {
  const std::int64_t d = options_.features;
  const double n = static_cast<double>(observation.size(0));
  nets::forward(actor_, actor_folded_, observation, actor_pass_);
  if (options_.expected_value) {
    // dL/da_i = -Q(s, e_i) / n: the critic is not differentiated at all.
    nets::forward_moves(critic_, critic_folded_, observation, kActions, critic_pass_, d_action_);
    d_action_.mul_(-1.0 / n);
    actor_loss_ = at::dot(d_action_.view(-1), actor_pass_.output.view(-1));
  } else {
    critic_input_.narrow(1, d, kActions).copy_(actor_pass_.output);
    nets::forward(critic_, critic_folded_, critic_input_, critic_pass_);
    actor_loss_ = critic_pass_.output.mean().neg_();
    d_q_.fill_(-1.0 / n);
    nets::backward_input(critic_, critic_folded_, d_q_, critic_pass_, d, kActions, d_action_);
  }
  nets::backward_parameters(actor_, observation, d_action_, actor_pass_, actor_gradient_);
  average(actor_gradient_.flat());
  actor_norm_ = actor_adam_.step(actor_.parameters().flat(), actor_gradient_.flat(), kMaxGradNorm);
  actor_folded_.refresh(actor_);
}

UpdateStats Ddpg::stats() const {
  return {actor_loss_.item<double>(), critic_loss_.item<double>(), actor_norm_.item<double>(),
          critic_norm_.item<double>(), q_mean_.item<double>()};
}

nets::NamedTensors Ddpg::state() {
  nets::NamedTensors out;
  add_under(out, "actor.", actor_.named());
  add_under(out, "critic.", critic_.named());
  add_under(out, "actor_target.", actor_target_.named());
  add_under(out, "critic_target.", critic_target_.named());
  add_under(out, "actor_adam.first.", actor_.named_views(actor_adam_.first_moment));
  add_under(out, "actor_adam.second.", actor_.named_views(actor_adam_.second_moment));
  add_under(out, "critic_adam.first.", critic_.named_views(critic_adam_.first_moment));
  add_under(out, "critic_adam.second.", critic_.named_views(critic_adam_.second_moment));
  out.emplace_back("actor_adam.steps", actor_adam_.steps);
  out.emplace_back("critic_adam.steps", critic_adam_.steps);
  return out;
}

void Ddpg::state_changed() {
  actor_folded_.refresh(actor_);
  critic_folded_.refresh(critic_);
  target_folded_actor_.refresh(actor_target_);
  target_folded_critic_.refresh(critic_target_);
}

const at::Tensor& Ddpg::action_values(const at::Tensor& observations) {
  const c10::NoGradGuard no_grad;
  const std::int64_t rows = observations.size(0) * kTeam;
  const at::Tensor input = observations.view({rows, options_.features + 1}).to(options_.device);
  nets::forward(actor_, actor_folded_, input, act_pass_);
  act_output_ = act_pass_.output.to(at::kCPU).view({observations.size(0), kTeam, kActions});
  return act_output_;
}

}  // namespace snake_ddp::learners
