#include "learners/ddpg.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "entries.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::learners {
namespace {

nets::DenseShape actor_shape(const LearnerOptions& o) {
  return {o.features, o.hidden_size, kActions, nets::head_from_name(o.output_activation), false};
}

nets::DenseShape critic_shape(const LearnerOptions& o) {
  return {o.features, o.hidden_size, 1, nets::Head::kIdentity, o.layer_norm, kActions};
}

// In main memory so many rows go through all passes before the next ones: they stay in cache from layer to layer.
constexpr std::int64_t kChunk = 384;

// Calls work(first, count) for the rows that go through the passes together.
template <class Work>
void for_chunks(const nets::Backend& backend, std::int64_t rows, const Work& work) {
  const std::int64_t chunk = backend.at_a_time(rows, kChunk);
  for (std::int64_t first = 0; first < rows; first += chunk) work(first, std::min(chunk, rows - first));
}

}  // namespace

DdpgTrainee::DdpgTrainee(const LearnerOptions& o, const nets::DenseShape& shape, double learning_rate,
                         std::uint64_t seed)
    : Trainee(o, learning_rate, seed, nets::DenseNet(shape, o.device, o.backend),
              nets::DenseNet(shape, o.device, o.backend)),
      folded(net),
      target_folded(net),
      folded_gradient(net) {}

Ddpg::Ddpg(const LearnerOptions& options)
    : options_(options),
      actor_(options, actor_shape(options), options.a_lr, options.seed * 2),
      critic_(options, critic_shape(options), options.c_lr, options.seed * 2 + 1),
      policy_(actor_.net, actor_.folded) {
  const auto floats = at::TensorOptions().dtype(at::kFloat).device(options.device);
  for (at::Tensor* t : {&critic_loss_, &q_mean_, &actor_loss_}) *t = at::zeros({}, floats);
  updates_ = at::zeros({}, floats.dtype(at::kLong));
  start_from_exported();
}

void Ddpg::start_from_exported() {
  const c10::NoGradGuard no_grad;
  for (DdpgTrainee* t : {&actor_, &critic_}) {
    t->keep_symmetry();
    t->start();
  }
  updates_.zero_();
  state_changed();
}

std::vector<Column> Ddpg::columns() const { return columns_up_to(kDiscount, options_.features); }

Ddpg::Transitions Ddpg::Transitions::part(std::int64_t first, std::int64_t count) const {
  const auto rows = [&](const at::Tensor& t) { return t.narrow(0, first, count); };
  return {rows(observation), rows(action), rows(reward), rows(next_observation), rows(discount)};
}

Ddpg::Transitions Ddpg::transitions_of(const Batch& batch) const {
  const std::int64_t rows = batch.columns.at(kObservation).size(0) * kTeamSize, d = options_.features;
  const auto column = [&](TransitionColumn c, std::int64_t width) {
    return batch.columns.at(c).view({rows, width}).to(options_.device);
  };
  return {column(kObservation, d + 1), column(kAction, kActions), column(kReward, 1),
          column(kNextObservation, d + 1), column(kDiscount, 1)};
}

// Clip, Adam, then the target's step; nothing reads the target before the next update, so refresh_target may come
// later.
void Ddpg::step(DdpgTrainee& t) {
  nets::unfold(t.net, t.folded_gradient, t.gradient);
  t.descend();
  t.refresh();
}

void Ddpg::update(const Batch& batch, const Average& average) {
  const c10::NoGradGuard no_grad;
  updates_.add_(1);
  const Transitions all = transitions_of(batch);
  critic_gradient(all);
  average(critic_.folded_gradient.flat);
  step(critic_);
  actor_gradient(all.observation);
  critic_.refresh_target();
  average(actor_.folded_gradient.flat);
  step(actor_);
  actor_.refresh_target();
}

// Q'(s', mu'(s')) [R, 1].
at::Tensor Ddpg::next_values(const at::Tensor& next) {
  nets::forward(actor_.target(), actor_.target_folded, next, {}, actor_.target_pass);
  const at::Tensor& action = actor_.target_pass.output;
  if (options_.expected_value) {
    nets::forward_moves(critic_.target(), critic_.target_folded, next, critic_.target_pass, move_values_);
    return move_values_.mul_(action).sum(1, /*keepdim=*/true);
  }
  nets::forward(critic_.target(), critic_.target_folded, next, action, critic_.target_pass);
  return critic_.target_pass.output;
}

// L = mean (Q(s, a) - (r + discount * Q'(s', mu'(s'))))^2
void Ddpg::critic_gradient(const Transitions& all) {
  // Into the same tensors each time, because a recording has their addresses.
  for (at::Tensor* t : {&critic_.folded_gradient.flat, &critic_loss_, &q_mean_}) t->zero_();
  const std::int64_t total = all.reward.size(0);
  const double share = 1.0 / static_cast<double>(total);
  for_chunks(critic_.net.backend(), total, [&](std::int64_t first, std::int64_t count) {
    const Transitions t = all.part(first, count);
    const at::Tensor target = at::addcmul(t.reward, t.discount, next_values(t.next_observation));
    nets::forward(critic_.net, critic_.folded, t.observation, t.action, critic_.pass);
    at::Tensor error = critic_.pass.output - target;
    critic_loss_.add_(at::dot(error.view(-1), error.view(-1)), share);
    q_mean_.add_(critic_.pass.output.sum(), share);
    nets::backward_parameters(critic_.net, t.observation, t.action, error.mul_(2.0 * share), critic_.pass,
                              critic_.folded_gradient);
  });
}

// L = -mean Q(s, mu(s)); only the actor's gradient is computed.
void Ddpg::actor_gradient(const at::Tensor& observations) {
  for (at::Tensor* t : {&actor_.folded_gradient.flat, &actor_loss_}) t->zero_();
  const std::int64_t total = observations.size(0);
  const double share = 1.0 / static_cast<double>(total);
  for_chunks(actor_.net.backend(), total, [&](std::int64_t first, std::int64_t count) {
    const at::Tensor observation = observations.narrow(0, first, count);
    nets::forward(actor_.net, actor_.folded, observation, {}, actor_.pass);
    const at::Tensor& action = actor_.pass.output;
    if (options_.expected_value) {
      // dL/da_i = -Q(s, e_i) / n: the critic is not differentiated at all.
      nets::forward_moves(critic_.net, critic_.folded, observation, critic_.pass, d_action_);
      d_action_.mul_(-share);
      actor_loss_.add_(at::dot(d_action_.view(-1), action.view(-1)));
    } else {
      nets::forward(critic_.net, critic_.folded, observation, action, critic_.pass);
      actor_loss_.sub_(critic_.pass.output.sum(), share);
      nets::backward_action(critic_.net, critic_.folded, at::full({count, 1}, -share, action.options()),
                            critic_.pass, d_action_);
    }
    nets::backward_parameters(actor_.net, observation, {}, d_action_, actor_.pass, actor_.folded_gradient);
  });
}

void Ddpg::scale_rates(double factor) {
  actor_.scale_rate(factor);
  critic_.scale_rate(factor);
}

at::Tensor Ddpg::measured() const {
  return at::stack({actor_loss_, critic_loss_, actor_.norm, critic_.norm, q_mean_});
}

nets::NamedTensors Ddpg::state() {
  nets::NamedTensors out;
  actor_.add_state(out, "actor.", "actor_target.", "actor_adam.");
  critic_.add_state(out, "critic.", "critic_target.", "critic_adam.");
  out.emplace_back("updates", updates_);
  return out;
}

std::vector<Trained> Ddpg::trained() { return {actor_.trained(), critic_.trained()}; }

void Ddpg::state_changed() {
  const c10::NoGradGuard no_grad;
  for (DdpgTrainee* t : {&actor_, &critic_}) {
    t->keep_symmetry();
    t->refresh();
    t->refresh_target();
  }
}

std::vector<LearnerEntry> ddpg_entries() {
  return {
      {.name = "ddpg",
       .make = make<Ddpg>,
       .flags = flags_of<NetFlags, TargetFlags, LayerNormFlags, MirrorFlags, ActorFlags, ExpectedValueFlags>,
       .actor = true,
       .n_step = true,
       .device_boards = true,
       .cuda_graphs = true,
       .low_precision = true,
       .lone_critic = true,
       .check = [](const LearnerOptions& o) {
         if (o.expected_value && o.output_activation != "softmax")
           throw core::UsageError("--expected_value needs --output_activation softmax");
       }}};
}

}  // namespace snake_ddp::learners
