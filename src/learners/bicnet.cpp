#include "learners/bicnet.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "entries.hpp"

namespace snake_ddp::learners {
namespace {

nets::BicnetShape team_actor_shape(const LearnerOptions& o) {
  return {o.features, o.hidden_size, kActions, nets::head_from_name(o.output_activation),
          nets::BicnetRole::kActor};
}

nets::BicnetShape team_critic_shape(const LearnerOptions& o) {
  return {o.features + kActions, o.hidden_size, 1, nets::Head::kIdentity, nets::BicnetRole::kCritic};
}

// [B, 3, n] as in batches -> [3, B, n] as the networks read it.
at::Tensor by_snake(const at::Tensor& column, at::Device device) {
  return column.to(device).transpose(0, 1).contiguous();
}

// Features and actions side by side, the constant 1 last.
at::Tensor with_action(const at::Tensor& observation, const at::Tensor& action) {
  const std::int64_t d = observation.size(2) - 1;
  return at::cat({observation.narrow(2, 0, d), action, observation.narrow(2, d, 1)}, 2);
}

}  // namespace

Bicnet::Pair::Pair(const LearnerOptions& o, const nets::BicnetShape& shape, double learning_rate,
                   std::uint64_t seed)
    : Trainee(o, learning_rate, seed, nets::BicnetNet(shape, o.device, o.backend),
              nets::BicnetNet(shape, o.device, o.backend)) {}

void Bicnet::Pair::refresh() {
  maps.refresh(net, true);
  target_maps.refresh(target(), false);
}

void Bicnet::Pair::step(const Average& average) {
  Trainee::step(average);
  refresh();
}

Bicnet::Bicnet(const LearnerOptions& options)
    : options_(options),
      actor_(options, team_actor_shape(options), options.a_lr, options.seed * 2),
      critic_(options, team_critic_shape(options), options.c_lr, options.seed * 2 + 1),
      policy_(actor_.net, actor_.maps),
      critic_loss_(at::zeros_like(critic_.norm)),
      q_mean_(at::zeros_like(critic_.norm)),
      actor_loss_(at::zeros_like(critic_.norm)),
      updates_(at::zeros({}, critic_.norm.options().dtype(at::kLong))) {
  start_from_exported();
}

void Bicnet::start_from_exported() {
  const c10::NoGradGuard no_grad;
  actor_.start();
  critic_.start();
  updates_.zero_();
  state_changed();
}

std::vector<Column> Bicnet::columns() const { return columns_up_to(kDiscount, options_.features); }

void Bicnet::update(const Batch& batch, const Average& average) {
  const c10::NoGradGuard no_grad;
  updates_.add_(1);
  const at::Tensor observation = by_snake(batch.columns.at(kObservation), options_.device);
  critic_gradient(batch, observation);
  critic_.step(average);
  actor_gradient(observation);
  actor_.step(average);
}

// L = mean (Q(s, a) - (r + discount * Q'(s', mu'(s'))))^2, s and a of the whole team
void Bicnet::critic_gradient(const Batch& batch, const at::Tensor& observation) {
  const at::Tensor next = by_snake(batch.columns[kNextObservation], options_.device);
  const at::Tensor reward = by_snake(batch.columns[kReward].unsqueeze(2), options_.device);
  const at::Tensor discount = by_snake(batch.columns[kDiscount].unsqueeze(2), options_.device);
  nets::forward(actor_.target(), actor_.target_maps, next, actor_.pass);
  nets::forward(critic_.target(), critic_.target_maps, with_action(next, actor_.pass.output), critic_.pass);
  const at::Tensor target = at::addcmul(reward, discount, critic_.pass.output);

  critic_input_ = with_action(observation, by_snake(batch.columns[kAction], options_.device));
  nets::forward(critic_.net, critic_.maps, critic_input_, critic_.pass);
  d_q_ = critic_.pass.output - target;
  const auto rows = static_cast<double>(d_q_.numel());
  critic_loss_ = at::dot(d_q_.view(-1), d_q_.view(-1)).div_(rows);
  q_mean_ = critic_.pass.output.mean();
  d_q_.mul_(2.0 / rows);
  nets::backward_parameters(critic_.net, critic_.maps, critic_input_, d_q_, critic_.pass, critic_.gradient);
}

// L = -mean Q(s, mu(s)); the critic's own gradient is not computed.
void Bicnet::actor_gradient(const at::Tensor& observation) {
  nets::forward(actor_.net, actor_.maps, observation, actor_.pass);
  critic_input_.narrow(2, options_.features, kActions).copy_(actor_.pass.output);
  nets::forward(critic_.net, critic_.maps, critic_input_, critic_.pass);
  actor_loss_ = critic_.pass.output.mean().neg_();
  d_q_.fill_(-1.0 / static_cast<double>(d_q_.numel()));
  nets::backward_input(critic_.net, critic_.maps, d_q_, critic_.pass, options_.features, kActions, d_action_);
  nets::backward_parameters(actor_.net, actor_.maps, observation, d_action_, actor_.pass, actor_.gradient);
}

void Bicnet::scale_rates(double factor) {
  actor_.scale_rate(factor);
  critic_.scale_rate(factor);
}

at::Tensor Bicnet::measured() const {
  return at::stack({actor_loss_, critic_loss_, actor_.norm, critic_.norm, q_mean_});
}

nets::NamedTensors Bicnet::state() {
  nets::NamedTensors out;
  actor_.add_state(out, "actor.", "actor_target.", "actor_adam.");
  critic_.add_state(out, "critic.", "critic_target.", "critic_adam.");
  out.emplace_back("updates", updates_);
  return out;
}

std::vector<Trained> Bicnet::trained() { return {actor_.trained(), critic_.trained()}; }

void Bicnet::state_changed() {
  const c10::NoGradGuard no_grad;
  actor_.refresh();
  critic_.refresh();
}

std::vector<LearnerEntry> bicnet_entries() {
  return {{.name = "bicnet",
           .make = make<Bicnet>,
           .flags = flags_of<NetFlags, TargetFlags, ActorFlags>,
           .actor = true,
           .n_step = true,
           .device_boards = true}};
}

}  // namespace snake_ddp::learners
