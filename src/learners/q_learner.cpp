#include "q_learner.hpp"

#include <ATen/ATen.h>

#include <limits>

#include "double_q_work.hpp"
#include "nets/device_work.hpp"
#include "snake_ddp/core/check.hpp"

namespace snake_ddp::learners {

Transitions transitions_of(const Batch& batch, at::Device device) {
  const auto column = [&](TransitionColumn c, std::int64_t width) {
    return batch.columns.at(c).view({-1, width}).to(device);
  };
  const std::int64_t seen = batch.columns.at(kObservation).size(-1);
  Transitions t;
  t.observation = column(kObservation, seen);
  t.action = column(kAction, kActions);
  t.reward = column(kReward, 1);
  if (batch.columns.size() <= kNextMoves) return t;  // returns take the place of what comes next
  t.discount = column(kDiscount, 1);
  t.next_observation = column(kNextObservation, seen);
  t.next_moves = column(kNextMoves, kActions);
  return t;
}

nets::Mlp q_net(const LearnerOptions& o, bool layer_norm) {
  return {{o.features, o.hidden_size, kActions, layer_norm, o.mirror.inputs},
          o.device,
          nets::kQNetName,
          o.backend};
}

QLearner::Mixing::Mixing(const LearnerOptions& o)
    : Trainee(o, o.c_lr, o.seed + 1, nets::Mixer({kTeamSize * (o.features + 1)}, o.device, o.backend),
              nets::Mixer({kTeamSize * (o.features + 1)}, o.device, o.backend)) {}

QLearner::QLearner(const LearnerOptions& options, Value value, TransitionColumn last_column)
    : options_(options), value_(value), last_column_(last_column) {
  const auto scalar = at::TensorOptions().dtype(at::kFloat).device(options.device);
  for (at::Tensor* t : {&loss_, &q_mean_, &norm_}) *t = at::zeros({}, scalar);
  if (value == Value::kMixed) mixing_.emplace(options);
}

at::Tensor QLearner::measured() const {
  const at::Tensor none = at::zeros_like(loss_);
  return at::stack({none, loss_, none, norm_, q_mean_});
}

at::Tensor QLearner::of_learned(const at::Tensor& errors) const {
  return value_ == Value::kSnake ? errors : errors.view({-1, kTeamSize}).sum(1, true);
}

at::Tensor QLearner::of_snakes(const at::Tensor& gradient) const {
  return value_ == Value::kSnake ? gradient : gradient.expand({-1, kTeamSize}).reshape({-1, 1});
}

// Value less r + discount * next value: of snakes [R, 1], or of teams [R / 3, 1].
at::Tensor QLearner::errors(const Transitions& t, const at::Tensor& chosen, const at::Tensor& next) {
  if (value_ != Value::kMixed) return of_learned(chosen - at::addcmul(t.reward, t.discount, next));
  const auto by_team = [](const at::Tensor& rows) { return rows.view({-1, kTeamSize * rows.size(1)}); };
  nets::forward(mixing_->net, by_team(t.observation), by_team(chosen), mixing_->pass);
  nets::forward(mixing_->target(), by_team(t.next_observation), by_team(next), mixing_->target_pass);
  // The snakes of a team end together.
  return mixing_->pass.output - at::addcmul(by_team(t.reward).sum(1, true),
                                            by_team(t.discount).narrow(1, 0, 1), mixing_->target_pass.output);
}

// Sixteen of the library's operators as one kernel.
at::Tensor QLearner::double_q_by_kernel(const Transitions& t, const at::Tensor& values,
                                        const at::Tensor& next_online, const at::Tensor& next_target) {
  const int snakes = value_ == Value::kSum ? kTeamSize : 1;
  const std::int64_t learned = values.size(0) / snakes;
  at::Tensor losses = at::empty({learned}, values.options()), d_values = at::empty_like(values);
  const auto floats = [&](const at::Tensor& of) {
    SD_CHECK(of.is_contiguous() && of.device() == values.device(),
             "tensors must be contiguous and on one device");
    return of.const_data_ptr<float>();
  };
  nets::run_work(values.device(), learned,
                 DoubleQ{snakes, 1.0F / static_cast<float>(learned), floats(values), floats(t.action),
                         floats(t.reward), floats(t.discount), floats(next_online), floats(next_target),
                         floats(t.next_moves), losses.data_ptr<float>(), d_values.data_ptr<float>()});
  loss_ = losses.mean();
  q_mean_ = values.mean();
  return d_values;
}

at::Tensor QLearner::double_q_gradient(const Transitions& t, const at::Tensor& values,
                                       const at::Tensor& next_online, const at::Tensor& next_target,
                                       const at::Tensor& counts) {
  if (nets::kHaveKernels && values.is_cuda() && value_ != Value::kMixed && !counts.defined())
    return double_q_by_kernel(t, values, next_online, next_target);
  // Q'(s', argmax over allowed moves of Q(s')).
  const at::Tensor choice =
      next_online.masked_fill(t.next_moves <= 0, -std::numeric_limits<float>::infinity()).argmax(1, true);
  const at::Tensor next = next_target.gather(1, choice), chosen = (values * t.action).sum(1, true);
  at::Tensor error = errors(t, chosen, next);
  if (counts.defined()) error = error * counts;
  const at::Tensor slope = error.clamp(-1.0, 1.0);  // dHuber/derror
  // Huber(e) = slope * (e - slope / 2) in both of its parts.
  loss_ = (slope * (error - slope * 0.5)).mean();
  q_mean_ = values.mean();
  at::Tensor d_error = (counts.defined() ? slope * counts : slope) / static_cast<double>(error.size(0));
  if (value_ != Value::kMixed) return t.action * of_snakes(d_error);
  nets::backward(mixing_->net, t.observation.view({-1, kTeamSize * t.observation.size(1)}),
                 chosen.view({-1, kTeamSize}), d_error, mixing_->pass, mixing_->gradient);
  return t.action * mixing_->pass.d_q.view({-1, 1});
}

}  // namespace snake_ddp::learners
