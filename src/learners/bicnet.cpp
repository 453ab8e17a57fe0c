#include "snake_ddp/learners/bicnet.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "entries.hpp"

namespace snake_ddp::learners {
namespace {

bool by_library(const LearnerOptions& o) { return o.library_products || !o.device.is_cpu(); }

nets::BicnetShape actor_shape(const LearnerOptions& o) {
  return {o.features, o.hidden_size, kActions, nets::head_from_name(o.output_activation),
          nets::BicnetRole::kActor};
}

nets::BicnetShape critic_shape(const LearnerOptions& o) {
  return {o.features + kActions, o.hidden_size, 1, nets::Head::kIdentity, nets::BicnetRole::kCritic};
}

// [B, 3, n] as batches are -> [3, B, n] as the networks read.
at::Tensor by_snake(const at::Tensor& column, at::Device device) {
  return column.to(device).transpose(0, 1).contiguous();
}

// Features and actions side by side, the constant 1 last.
at::Tensor with_action(const at::Tensor& observation, const at::Tensor& action) {
  const std::int64_t d = observation.size(2) - 1;
  return at::cat({observation.narrow(2, 0, d), action, observation.narrow(2, d, 1)}, 2);
}

}  // namespace

Bicnet::Pair::Pair(const nets::BicnetShape& shape, double learning_rate, std::uint64_t seed,
                   at::Device device, bool by_library)
    : online(shape, device, by_library),
      target(shape, device, by_library),
      gradient(online.parameters().like()),
      adam(online.parameters(), learning_rate, by_library),
      norm(at::zeros({}, online.parameters().flat().options())) {
  online.init(seed);
}

void Bicnet::Pair::refresh() {
  maps.refresh(online, true);
  target_maps.refresh(target, false);
}

void Bicnet::Pair::step(const Average& average, double max_norm, std::optional<double> tau) {
  average(gradient.flat());
  at::Tensor none;
  norm = adam.step(online.parameters().flat(), gradient.flat(), max_norm,
                   tau ? target.parameters().flat() : none, tau.value_or(0.0));
  maps.refresh(online, true);
  if (tau) target_maps.refresh(target, false);
}

Bicnet::Bicnet(const LearnerOptions& options)
    : options_(options),
      actor_(actor_shape(options), options.a_lr, options.seed * 2, options.device, by_library(options)),
      critic_(critic_shape(options), options.c_lr, options.seed * 2 + 1, options.device, by_library(options)),
      critic_loss_(at::zeros_like(critic_.norm)),
      q_mean_(at::zeros_like(critic_.norm)),
      actor_loss_(at::zeros_like(critic_.norm)),
      updates_tensor_(at::zeros({}, critic_.norm.options().dtype(at::kLong))) {
  start_from_exported();
}

void Bicnet::start_from_exported() {
  const c10::NoGradGuard no_grad;
  for (Pair* pair : {&actor_, &critic_}) {
    pair->target.parameters().flat().copy_(pair->online.parameters().flat());
    pair->adam.reset();
  }
  updates_tensor_.zero_();
  state_changed();
}

std::vector<replay::Column> Bicnet::columns() const {
  return {{"observation", {nets::kTeam, options_.features + 1}},
          {"action", {nets::kTeam, kActions}},
          {"reward", {nets::kTeam}},
          {"next_observation", {nets::kTeam, options_.features + 1}},
          {"discount", {nets::kTeam}}};
}

void Bicnet::update(const replay::Batch& batch, const Average& average) {
  const c10::NoGradGuard no_grad;
  ++updates_;
  const bool with_actor = updates_ % options_.actor_interval == 0;
  const std::optional<double> tau = with_actor ? std::optional(options_.tau) : std::nullopt;
  const at::Tensor observation = by_snake(batch.columns.at(kObservation), options_.device);
  critic_gradient(batch, observation);
  critic_.step(average, options_.max_grad_norm, tau);
  if (!with_actor) return;
  actor_gradient(observation);
  actor_.step(average, options_.max_grad_norm, tau);
}

// L = mean (Q(s, a) - (r + discount * Q'(s', mu'(s'))))^2, s and a of the whole team
void Bicnet::critic_gradient(const replay::Batch& batch, const at::Tensor& observation) {
  const at::Tensor next = by_snake(batch.columns[kNextObservation], options_.device);
  const at::Tensor reward = by_snake(batch.columns[kReward].unsqueeze(2), options_.device);
  const at::Tensor discount = by_snake(batch.columns[kDiscount].unsqueeze(2), options_.device);
  nets::forward(actor_.target, actor_.target_maps, next, actor_.pass);
  nets::forward(critic_.target, critic_.target_maps, with_action(next, actor_.pass.output), critic_.pass);
  const at::Tensor target = at::addcmul(reward, discount, critic_.pass.output);

  critic_input_ = with_action(observation, by_snake(batch.columns[kAction], options_.device));
  nets::forward(critic_.online, critic_.maps, critic_input_, critic_.pass);
  d_q_ = critic_.pass.output - target;
  const auto rows = static_cast<double>(d_q_.numel());
  critic_loss_ = at::dot(d_q_.view(-1), d_q_.view(-1)).div_(rows);
  q_mean_ = critic_.pass.output.mean();
  d_q_.mul_(2.0 / rows);
  nets::backward_parameters(critic_.online, critic_.maps, critic_input_, d_q_, critic_.pass,
                            critic_.gradient);
}

// L = -mean Q(s, mu(s)); the critic's own gradient is not computed.
void Bicnet::actor_gradient(const at::Tensor& observation) {
  nets::forward(actor_.online, actor_.maps, observation, actor_.pass);
  critic_input_.narrow(2, options_.features, kActions).copy_(actor_.pass.output);
  nets::forward(critic_.online, critic_.maps, critic_input_, critic_.pass);
  actor_loss_ = critic_.pass.output.mean().neg_();
  d_q_.fill_(-1.0 / static_cast<double>(d_q_.numel()));
  nets::backward_input(critic_.online, critic_.maps, d_q_, critic_.pass, options_.features, kActions,
                       d_action_);
  nets::backward_parameters(actor_.online, actor_.maps, observation, d_action_, actor_.pass, actor_.gradient);
}

void Bicnet::scale_rates(double factor) {
  actor_.adam.learning_rate = factor * options_.a_lr;
  critic_.adam.learning_rate = factor * options_.c_lr;
}

at::Tensor Bicnet::measured() const {
  return at::stack({actor_loss_, critic_loss_, actor_.norm, critic_.norm, q_mean_});
}

nets::NamedTensors Bicnet::state() {
  nets::NamedTensors out;
  const std::pair<std::string, Pair*> pairs[] = {{"actor", &actor_}, {"critic", &critic_}};
  for (const auto& [name, pair] : pairs) {
    nets::add_under(out, name + ".", pair->online.named());
    nets::add_under(out, name + "_target.", pair->target.named());
    add_adam(out, name + "_adam.", pair->online, pair->adam);
  }
  updates_tensor_.fill_(updates_);
  out.emplace_back("updates", updates_tensor_);
  return out;
}

void Bicnet::state_changed() {
  const c10::NoGradGuard no_grad;
  updates_ = updates_tensor_.item<std::int64_t>();
  actor_.refresh();
  critic_.refresh();
}

const at::Tensor& Bicnet::action_values(const at::Tensor& observations) {
  const c10::NoGradGuard no_grad;
  nets::forward(actor_.online, actor_.maps, by_snake(observations, options_.device), act_pass_);
  act_output_ = act_pass_.output.transpose(0, 1).to(at::kCPU).contiguous();
  return act_output_;
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
