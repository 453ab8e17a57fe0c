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

}  // namespace

DdpgTrainee::DdpgTrainee(const LearnerOptions& o, const nets::DenseShape& shape, double learning_rate,
                         std::uint64_t seed)
    : Trainee(o, learning_rate, seed, nets::DenseNet(shape, o.device), nets::DenseNet(shape, o.device)),
      library(by_library(o)),
      folded(shape, o.device),
      target_folded(shape, o.device),
      rows(shape),
      target_rows(shape),
      folded_gradient(shape, library ? shape.hidden : rows.width(), o.device) {}

void DdpgTrainee::refresh() { library ? folded.refresh(net) : rows.refresh(net.blocks()); }
void DdpgTrainee::refresh_target() {
  library ? target_folded.refresh(target()) : target_rows.refresh(target().blocks());
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
      by_library_(by_library(options)),
      actor_(options, actor_shape(options), options.a_lr, options.seed * 2) {
  const c10::NoGradGuard no_grad;
  critics_.reserve(2);
  critics_.emplace_back(options, critic_shape(options), options.c_lr, options.seed * 2 + 1);
  if (own_.clipped_double_critics) {
    // Far from the seeds of other runs' networks, which are consecutive.
    critics_.emplace_back(options, critic_shape(options), options.c_lr, options.seed * 2 + (1ULL << 32));
  }
  std::vector<DdpgTrainee*> all;
  for (DdpgTrainee& c : critics_) all.push_back(&c);
  all.push_back(&actor_);
  std::int64_t length = 0;
  for (const DdpgTrainee* t : all) length += t->folded_gradient.flat.numel();
  const auto floats = at::TensorOptions().dtype(at::kFloat).device(options.device);
  gradients_ = at::zeros({length}, floats);
  std::int64_t first = 0;
  for (DdpgTrainee* t : all) {
    const std::int64_t own = t->folded_gradient.flat.numel();
    t->folded_gradient.lie_over(gradients_.narrow(0, first, own));
    first += own;
  }
  actor_gradient_ = actor_.folded_gradient.flat;
  critic_gradients_ = gradients_.narrow(0, 0, length - actor_gradient_.numel());
  for (at::Tensor* t : {&critic_loss_, &q_mean_, &actor_loss_}) *t = at::zeros({}, floats);
  updates_tensor_ = at::zeros({}, floats.dtype(at::kLong));
  if (by_library_) {
    policy_.emplace(actor_.net, actor_.folded);
  } else {
    prepare_rows();
  }
  start_from_exported();
}

void Ddpg::start_from_exported() {
  const c10::NoGradGuard no_grad;
  actor_.start();
  for (DdpgTrainee& c : critics_) c.start();
  updates_tensor_.zero_();
  state_changed();
}

std::vector<replay::Column> Ddpg::columns() const { return columns_up_to(kDiscount, options_.features); }

// Clip, Adam, then the target's step; nothing reads the target before the next update, so refresh_target may come
// later.
void Ddpg::step(DdpgTrainee& t, bool follow) {
  if (by_library_) {
    nets::unfold(t.net, t.folded_gradient, t.gradient);
  } else {
    unfold_in_rows(t);
  }
  t.descend(follow);
  t.refresh();
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
    for (DdpgTrainee& c : critics_) step(c, with_actor);
  };
  gradient_of_critics();
  if (with_actor && own_.coalesced_update) {
    gradient_of_actor();
    average(gradients_);
    step_critics();
    for (DdpgTrainee& c : critics_) c.refresh_target();
  } else {
    average(critic_gradients_);
    step_critics();
    if (!with_actor) return;
    gradient_of_actor();
    average.post(actor_gradient_);
    for (DdpgTrainee& c : critics_) c.refresh_target();
    average(actor_gradient_);
  }
  step(actor_, /*follow=*/true);
  actor_.refresh_target();
}

void Ddpg::scale_rates(double factor) {
  actor_.scale_rate(factor);
  for (DdpgTrainee& critic : critics_) critic.scale_rate(factor);
}

at::Tensor Ddpg::measured() const {
  return at::stack({actor_loss_, critic_loss_, actor_.norm, critics_.front().norm, q_mean_});
}

nets::NamedTensors Ddpg::state() {
  nets::NamedTensors out;
  actor_.add_state(out, "actor.", "actor_target.", "actor_adam.");
  for (std::size_t i = 0; i < critics_.size(); ++i) {
    const std::string name = i == 0 ? "critic" : "critic_2";
    critics_[i].add_state(out, name + ".", name + "_target.", name + "_adam.");
  }
  updates_tensor_.fill_(updates_);
  out.emplace_back("updates", updates_tensor_);
  return out;
}

std::vector<Trained> Ddpg::trained() {
  updates_tensor_.fill_(updates_);  // state_changed reads it
  std::vector<Trained> all{actor_.trained()};
  for (DdpgTrainee& critic : critics_) all.push_back(critic.trained());
  return all;
}

void Ddpg::state_changed() {
  const c10::NoGradGuard no_grad;
  updates_ = updates_tensor_.item<std::int64_t>();
  const auto refresh = [](DdpgTrainee& t) { t.refresh(), t.refresh_target(); };
  refresh(actor_);
  for (DdpgTrainee& c : critics_) refresh(c);
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
