#include "snake_ddp/learners/ddpg.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "entries.hpp"
#include "snake_ddp/base/error.hpp"

namespace snake_ddp::learners {
namespace {

nets::DenseShape actor_shape(const LearnerOptions& o) {
  return {o.features, o.hidden_size, kActions, nets::head_from_name(o.output_activation), false};
}

nets::DenseShape critic_shape(const LearnerOptions& o) {
  return {o.features + kActions, o.hidden_size, 1, nets::Head::kIdentity, o.layer_norm};
}

void add_trained(nets::NamedTensors& out, const std::string& name, const Trained& t) {
  nets::add_under(out, name + ".", t.net.named());
  nets::add_under(out, name + "_target.", t.target.named());
  add_adam(out, name + "_adam.", t.net, t.adam);
}

}  // namespace

Trained::Trained(const nets::DenseShape& shape, at::Device device, double learning_rate, std::uint64_t seed,
                 bool by_library)
    : net(shape, device),
      target(shape, device),
      gradient(net.parameters().like()),
      adam(net.parameters(), learning_rate, by_library),
      folded(shape, device),
      target_folded(shape, device),
      rows(shape),
      target_rows(shape),
      folded_gradient(shape, by_library ? shape.hidden : rows.width(), device) {
  net.init(seed);
}

void Trained::start() {
  target.parameters().flat().copy_(net.parameters().flat());
  adam.reset();
}

void Trained::refresh(bool by_library) {
  if (by_library) {
    folded.refresh(net);
    target_folded.refresh(target);
  } else {
    rows.refresh(net);
    target_rows.refresh(target);
  }
}

config::Fields DdpgFlags::fields() {
  return config::under(
      "Learning",
      {config::flag(
           "expected_value", &expected_value,
           "value an actor's output by the expectation over its moves; needs --stored_action played"),
       config::flag("clipped_double_critics", &clipped_double_critics,
                    "two critics; targets use the smaller of their values"),
       config::flag("coalesced_update", &coalesced_update,
                    "compute the actor's gradient before the critic's step: one all-reduce per update "
                    "instead of two")});
}

Ddpg::Ddpg(const LearnerOptions& options)
    : options_(options),
      own_(options.read<DdpgFlags>()),
      by_library_(options.library_products || !options.device.is_cpu()),
      actor_(actor_shape(options), options.device, options.a_lr, options.seed * 2, by_library_) {
  const c10::NoGradGuard no_grad;
  critics_.reserve(2);
  critics_.emplace_back(critic_shape(options), options.device, options.c_lr, options.seed * 2 + 1,
                        by_library_);
  if (own_.clipped_double_critics) {
    // Far from the seeds of other runs' networks, which lie side by side.
    critics_.emplace_back(critic_shape(options), options.device, options.c_lr,
                          options.seed * 2 + (1ULL << 32), by_library_);
  }
  std::vector<Trained*> all;
  for (Trained& c : critics_) all.push_back(&c);
  all.push_back(&actor_);
  std::int64_t length = 0;
  for (const Trained* t : all) length += t->folded_gradient.flat.numel();
  const auto floats = at::TensorOptions().dtype(at::kFloat).device(options.device);
  gradients_ = at::zeros({length}, floats);
  std::int64_t first = 0;
  for (Trained* t : all) {
    const std::int64_t own = t->folded_gradient.flat.numel();
    t->folded_gradient.lie_over(gradients_.narrow(0, first, own));
    first += own;
  }
  actor_gradient_ = actor_.folded_gradient.flat;
  critic_gradients_ = gradients_.narrow(0, 0, length - actor_gradient_.numel());
  for (at::Tensor* t : {&critic_loss_, &q_mean_, &critic_norm_, &actor_norm_, &actor_loss_})
    *t = at::zeros({}, floats);
  updates_tensor_ = at::zeros({}, floats.dtype(at::kLong));
  start_from_exported();
}

void Ddpg::start_from_exported() {
  const c10::NoGradGuard no_grad;
  actor_.start();
  for (Trained& c : critics_) c.start();
  updates_tensor_.zero_();
  state_changed();
}

std::vector<replay::Column> Ddpg::columns() const {
  return {{"observation", {kTeam, options_.features + 1}},
          {"action", {kTeam, kActions}},
          {"reward", {kTeam}},
          {"next_observation", {kTeam, options_.features + 1}},
          {"discount", {kTeam}}};
}

// Clip, Adam, and the target's step behind it, which no one reads before the next update: refresh_target may come later.
void Ddpg::step(Trained& t, at::Tensor& norm, bool follow) {
  if (by_library_) {
    nets::unfold(t.net, t.folded_gradient, t.gradient);
  } else {
    unfold_in_rows(t);
  }
  at::Tensor none;
  norm = t.adam.step(t.net.parameters().flat(), t.gradient.flat(), options_.max_grad_norm,
                     follow ? t.target.parameters().flat() : none, options_.tau);
  by_library_ ? t.folded.refresh(t.net) : t.rows.refresh(t.net);
}

void Ddpg::refresh_target(Trained& t) const {
  by_library_ ? t.target_folded.refresh(t.target) : t.target_rows.refresh(t.target);
}

const at::Tensor& Ddpg::action_values(const at::Tensor& observations) {
  const c10::NoGradGuard no_grad;
  by_library_ ? act_by_library(observations) : act_in_rows(observations);
  return act_output_;
}

void Ddpg::update(const replay::Batch& batch, const Average& average) {
  const c10::NoGradGuard no_grad;
  ++updates_;
  const bool with_actor = updates_ % options_.actor_interval == 0;
  const auto gradient_of_critics = [&] {
    by_library_ ? critic_gradient_by_library(batch) : critic_gradient_in_rows(batch);
  };
  const auto gradient_of_actor = [&] {
    by_library_ ? actor_gradient_by_library(batch) : actor_gradient_in_rows(batch);
  };
  const auto step_critics = [&] {
    for (Trained& c : critics_) step(c, critic_norm_, with_actor);
  };
  gradient_of_critics();
  if (with_actor && own_.coalesced_update) {
    gradient_of_actor();
    average(gradients_);
    step_critics();
    for (Trained& c : critics_) refresh_target(c);
  } else {
    average(critic_gradients_);
    step_critics();
    if (!with_actor) return;
    gradient_of_actor();
    average.post(actor_gradient_);
    for (Trained& c : critics_) refresh_target(c);
    average(actor_gradient_);
  }
  step(actor_, actor_norm_, true);
  refresh_target(actor_);
}

void Ddpg::scale_rates(double factor) {
  actor_.adam.learning_rate = factor * options_.a_lr;
  for (Trained& critic : critics_) critic.adam.learning_rate = factor * options_.c_lr;
  actor_.adam.publish_rate();
  for (Trained& critic : critics_) critic.adam.publish_rate();
}

at::Tensor Ddpg::measured() const {
  return at::stack({actor_loss_, critic_loss_, actor_norm_, critic_norm_, q_mean_});
}

nets::NamedTensors Ddpg::state() {
  nets::NamedTensors out;
  add_trained(out, "actor", actor_);
  add_trained(out, "critic", critics_[0]);
  if (critics_.size() > 1) add_trained(out, "critic_2", critics_[1]);
  updates_tensor_.fill_(updates_);
  out.emplace_back("updates", updates_tensor_);
  return out;
}

void Ddpg::state_changed() {
  const c10::NoGradGuard no_grad;
  updates_ = updates_tensor_.item<std::int64_t>();
  actor_.refresh(by_library_);
  for (Trained& c : critics_) c.refresh(by_library_);
}

std::vector<LearnerEntry> ddpg_entries() {
  return {{.name = "ddpg",
           .make = make<Ddpg>,
           .flags = flags_of<NetFlags, TargetFlags, LayerNormFlags, ActorFlags, DdpgFlags>,
           .actor = true,
           .n_step = true,
           .device_boards = true,
           .cuda_graphs = true,
           .low_precision = true,
           .check = [](const LearnerOptions& o) {
             if (o.read<DdpgFlags>().expected_value &&
                 (o.stored_action != "played" || o.output_activation != "softmax"))
               throw base::UsageError(
                   "--expected_value needs --stored_action played and --output_activation softmax");
           }}};
}

}  // namespace snake_ddp::learners
