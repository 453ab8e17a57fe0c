#include "snake_ddp/learners/rqmix.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <limits>

#include "entries.hpp"
#include "snake_ddp/base/error.hpp"

namespace snake_ddp::learners {

namespace {

void check(const LearnerOptions& o) {
  if (o.burn_in >= o.sequence_length)
    throw base::UsageError(fmt::format(
        "--burn_in {} leaves nothing to learn from in windows of --sequence_length {}: lower the first",
        o.burn_in, o.sequence_length));
}

}  // namespace

Rqmix::Rqmix(const LearnerOptions& options)
    : options_((check(options), options)),
      net_({options.features, options.hidden_size, kActions}, options.device, nets::kQNetName),
      target_(net_.shape(), options.device, nets::kQNetName),
      gradient_(net_.parameters().like()),
      adam_(net_.parameters(), options.c_lr, options.library_products || !options.device.is_cpu()),
      mixing_(options) {
  net_.init(options.seed);
  const auto scalar = at::TensorOptions().dtype(at::kFloat).device(options.device);
  for (at::Tensor* t : {&loss_, &q_mean_, &norm_}) *t = at::zeros({}, scalar);
  start_from_exported();
}

void Rqmix::start_from_exported() {
  const c10::NoGradGuard no_grad;
  target_.parameters().flat().copy_(net_.parameters().flat());
  adam_.reset();
  mixing_.start();
}

std::vector<replay::Column> Rqmix::columns() const { return dqn_columns(options_, /*linked=*/true); }

// L = 1/N sum of Huber(error) over the windows' transitions after the burn-in, N as if all of them were there.
void Rqmix::update(const replay::Batch& batch, const Average& average) {
  const c10::NoGradGuard no_grad;
  const std::int64_t length = options_.sequence_length, windows = batch.columns.at(kBack).size(0) / length,
                     rows = windows * kTeam, learned = length - options_.burn_in, teams = learned * windows;
  // Window after window -> step after step, from `first` on.
  const auto by_step = [&](std::size_t column, std::int64_t first) {
    const at::Tensor& all = batch.columns[column];
    return all.view({windows, length, all.numel() / all.size(0)})
        .transpose(0, 1)
        .narrow(0, first, length - first)
        .contiguous()
        .to(options_.device);
  };
  const std::int64_t width = options_.features + 1;
  const at::Tensor seen_by_team = by_step(kObservation, 0);
  const at::Tensor next_by_team = by_step(kNextObservation, options_.burn_in);
  // All steps, and what is seen after the last one: each other step's next observation is that of the step after it.
  const at::Tensor seen =
      at::cat({seen_by_team, next_by_team.narrow(0, learned - 1, 1)}).view({length + 1, rows, width});
  const at::Tensor in_window = by_step(kBack, 0);  // [length, windows, 1]
  const at::Tensor there =
      at::cat({in_window, at::ones_like(in_window.narrow(0, 0, 1))}).repeat_interleave(kTeam, 1);
  const at::Tensor start = at::zeros({rows, options_.hidden_size}, seen.options());
  nets::forward(net_, seen, start, there, pass_);
  nets::forward(target_, seen, start, there, target_pass_);

  const at::Tensor values = pass_.output.narrow(0, options_.burn_in, learned);
  const at::Tensor action = by_step(kAction, options_.burn_in).view({learned, rows, kActions});
  const at::Tensor shut = by_step(kNextMoves, options_.burn_in).view({learned, rows, kActions}) <= 0;
  const at::Tensor choice = pass_.output.narrow(0, options_.burn_in + 1, learned)
                                .masked_fill(shut, -std::numeric_limits<float>::infinity())
                                .argmax(2, true);
  const at::Tensor next =
      target_pass_.output.narrow(0, options_.burn_in + 1, learned).gather(2, choice).view({teams, kTeam});
  const at::Tensor chosen = (values * action).sum(2).view({teams, kTeam});
  const at::Tensor state = seen_by_team.narrow(0, options_.burn_in, learned).reshape({teams, kTeam * width});
  nets::forward(mixing_.mixer, state, chosen, mixing_.pass);
  nets::forward(mixing_.target, next_by_team.view({teams, kTeam * width}), next, mixing_.target_pass);
  const at::Tensor reward = by_step(kReward, options_.burn_in).view({teams, kTeam}).sum(1, true);
  // A team's snakes come to their ends together.
  const at::Tensor discount = by_step(kDiscount, options_.burn_in).view({teams, kTeam}).narrow(1, 0, 1);
  const at::Tensor counts = in_window.narrow(0, options_.burn_in, learned).reshape({teams, 1});
  const at::Tensor error =
      (mixing_.pass.output - at::addcmul(reward, discount, mixing_.target_pass.output)) * counts;
  const at::Tensor slope = error.clamp(-1.0, 1.0);  // dHuber/derror
  loss_ = (slope * (error - slope * 0.5)).mean();
  q_mean_ = values.mean();

  const at::Tensor d_chosen =
      nets::backward(mixing_.mixer, state, chosen, slope * counts / static_cast<double>(teams), mixing_.pass,
                     mixing_.gradient);
  const at::Tensor d_values = action * d_chosen.reshape({learned, rows, 1});
  nets::backward(net_, seen, there, pass_, options_.burn_in, length - 1, d_values, gradient_);
  average(gradient_.flat());
  norm_ = adam_.step(net_.parameters().flat(), gradient_.flat(), options_.max_grad_norm,
                     target_.parameters().flat(), options_.tau);
  mixing_.step(average, options_);
}

void Rqmix::scale_rates(double factor) {
  adam_.learning_rate = mixing_.adam.learning_rate = factor * options_.c_lr;
}

at::Tensor Rqmix::measured() const { return measured_values(loss_, norm_, q_mean_); }

nets::NamedTensors Rqmix::state() {
  nets::NamedTensors out;
  nets::add_under(out, "net.", net_.named());
  nets::add_under(out, "net_target.", target_.named());
  add_adam(out, "adam.", net_, adam_);
  mixing_.add_state(out);
  return out;
}

const at::Tensor& Rqmix::action_values(const at::Tensor& observations) {
  at::Tensor nothing = at::zeros({observations.size(0), kTeam, options_.hidden_size});
  return action_values_after(observations, nothing);
}

const at::Tensor& Rqmix::action_values_after(const at::Tensor& observations, at::Tensor& memory) {
  const c10::NoGradGuard no_grad;
  nets::step(net_, observations.to(options_.device), memory, act_pass_);
  act_output_ = act_pass_.output.to(at::kCPU).view({observations.size(0), kTeam, kActions});
  return act_output_;
}

std::vector<LearnerEntry> rqmix_entries() {
  return {{.name = "rqmix",
           .make = make<Rqmix>,
           .flags = flags_of<NetFlags, TargetFlags, WindowFlags>,
           .feed = Feed::kWindows,
           .check = check}};
}

}  // namespace snake_ddp::learners
