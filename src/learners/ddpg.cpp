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

Ddpg::Ddpg(const LearnerOptions& options)
    : options_(options),
      by_library_(by_library(options)),
      actor_(options, actor_shape(options), options.a_lr, options.seed * 2),
      critic_(options, critic_shape(options), options.c_lr, options.seed * 2 + 1) {
  const auto floats = at::TensorOptions().dtype(at::kFloat).device(options.device);
  for (at::Tensor* t : {&critic_loss_, &q_mean_, &actor_loss_}) *t = at::zeros({}, floats);
  updates_ = at::zeros({}, floats.dtype(at::kLong));
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
  critic_.start();
  updates_.zero_();
  state_changed();
}

std::vector<replay::Column> Ddpg::columns() const { return columns_up_to(kDiscount, options_.features); }

// Clip, Adam, then the target's step; nothing reads the target before the next update, so refresh_target may come
// later.
void Ddpg::step(DdpgTrainee& t) {
  if (by_library_) {
    nets::unfold(t.net, t.folded_gradient, t.gradient);
  } else {
    unfold_in_rows(t);
  }
  t.descend();
  t.refresh();
}

void Ddpg::update(const replay::Batch& batch, const Average& average) {
  const c10::NoGradGuard no_grad;
  updates_.add_(1);
  by_library_ ? critic_gradient_by_library(batch) : critic_gradient_in_rows(batch);
  average(critic_.folded_gradient.flat);
  step(critic_);
  by_library_ ? actor_gradient_by_library(batch) : actor_gradient_in_rows(batch);
  average.post(actor_.folded_gradient.flat);
  critic_.refresh_target();
  average(actor_.folded_gradient.flat);
  step(actor_);
  actor_.refresh_target();
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
  for (DdpgTrainee* t : {&actor_, &critic_}) t->refresh(), t->refresh_target();
}

std::vector<LearnerEntry> ddpg_entries() {
  return {{.name = "ddpg",
           .make = make<Ddpg>,
           .flags = flags_of<NetFlags, TargetFlags, LayerNormFlags, ActorFlags, ExpectedValueFlags>,
           .actor = true,
           .n_step = true,
           .device_boards = true,
           .cuda_graphs = true,
           .low_precision = true,
           .lone_critic = true,
           .check = [](const LearnerOptions& o) {
             if (o.expected_value && o.output_activation != "softmax")
               throw base::UsageError("--expected_value needs --output_activation softmax");
           }}};
}

}  // namespace snake_ddp::learners
