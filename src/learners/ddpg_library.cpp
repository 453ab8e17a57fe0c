// DDPG's gradients by the library's products, a whole batch at once: for every device, and as the oracle of our own
// products on the CPU. Nothing is copied to the host.
#include <ATen/ATen.h>

#include "snake_ddp/learners/ddpg.hpp"

namespace snake_ddp::learners {

struct DdpgWhole {
  // The critics' inputs: features and actions side by side, the last column 1.
  at::Tensor critic_input, next_critic_input;
  nets::Pass actor_pass, critic_pass, target_pass;
  at::Tensor d_q, d_action, target_q, move_values;
};

namespace {

void fit_workspace(DdpgWhole& s, std::int64_t rows, std::int64_t features, const at::Device& device) {
  if (s.critic_input.defined() && s.critic_input.size(0) == rows) return;
  const auto floats = at::TensorOptions().dtype(at::kFloat).device(device);
  s.critic_input = at::ones({rows, features + kActions + 1}, floats);
  s.next_critic_input = at::ones_like(s.critic_input);
  s.d_q = at::empty({rows, 1}, floats);
  s.target_q = at::empty({rows, 1}, floats);
}

}  // namespace

// Q'(s', mu'(s')) [R, 1].
at::Tensor Ddpg::next_values_by_library(const at::Tensor& next) {
  DdpgWhole& s = *whole_;
  const std::int64_t d = options_.features;
  nets::forward(actor_.target(), actor_.target_folded, next, s.target_pass);
  if (options_.expected_value) {
    nets::forward_moves(critic_.target(), critic_.target_folded, next, kActions, s.critic_pass,
                        s.move_values);
    return s.move_values.mul_(s.target_pass.output).sum(1, /*keepdim=*/true);
  }
  s.next_critic_input.narrow(1, 0, d).copy_(next.narrow(1, 0, d));
  s.next_critic_input.narrow(1, d, kActions).copy_(s.target_pass.output);
  nets::forward(critic_.target(), critic_.target_folded, s.next_critic_input, s.critic_pass);
  return s.critic_pass.output;
}

// L = mean (Q(s, a) - (r + discount * Q'(s', mu'(s'))))^2
void Ddpg::critic_gradient_by_library(const replay::Batch& batch) {
  if (!whole_) whole_ = std::make_shared<DdpgWhole>();
  DdpgWhole& s = *whole_;
  const std::int64_t d = options_.features, rows = batch.columns.at(kObservation).size(0) * kTeam;
  fit_workspace(s, rows, d, options_.device);
  const auto column = [&](Column c, std::int64_t width) {
    return batch.columns.at(c).view({rows, width}).to(options_.device);
  };
  at::addcmul_out(s.target_q, column(kReward, 1), column(kDiscount, 1),
                  next_values_by_library(column(kNextObservation, d + 1)));
  s.critic_input.narrow(1, 0, d).copy_(column(kObservation, d + 1).narrow(1, 0, d));
  s.critic_input.narrow(1, d, kActions).copy_(column(kAction, kActions));
  const double n = static_cast<double>(rows);
  nets::forward(critic_.net, critic_.folded, s.critic_input, s.critic_pass);
  at::sub_out(s.d_q, s.critic_pass.output, s.target_q);
  // Into the same tensors each time, because a recording has their addresses.
  critic_loss_.copy_(at::dot(s.d_q.view(-1), s.d_q.view(-1)).div_(n));
  q_mean_.copy_(s.critic_pass.output.mean());
  s.d_q.mul_(2.0 / n);
  nets::backward_parameters(critic_.net, s.critic_input, s.d_q, s.critic_pass, critic_.folded_gradient);
}

// L = -mean Q(s, mu(s)); only the actor's gradient is computed.
void Ddpg::actor_gradient_by_library(const replay::Batch& batch) {
  DdpgWhole& s = *whole_;
  const std::int64_t d = options_.features, rows = batch.columns.at(kObservation).size(0) * kTeam;
  const at::Tensor observation = batch.columns[kObservation].view({rows, d + 1}).to(options_.device);
  const double n = static_cast<double>(rows);
  nets::forward(actor_.net, actor_.folded, observation, s.actor_pass);
  if (options_.expected_value) {
    // dL/da_i = -Q(s, e_i) / n: the critic is not differentiated at all.
    nets::forward_moves(critic_.net, critic_.folded, observation, kActions, s.critic_pass, s.d_action);
    s.d_action.mul_(-1.0 / n);
    actor_loss_.copy_(at::dot(s.d_action.view(-1), s.actor_pass.output.view(-1)));
  } else {
    s.critic_input.narrow(1, d, kActions).copy_(s.actor_pass.output);
    nets::forward(critic_.net, critic_.folded, s.critic_input, s.critic_pass);
    actor_loss_.copy_(s.critic_pass.output.mean().neg_());
    s.d_q.fill_(-1.0 / n);
    nets::backward_input(critic_.net, critic_.folded, s.d_q, s.critic_pass, d, kActions, s.d_action);
  }
  nets::backward_parameters(actor_.net, observation, s.d_action, s.actor_pass, actor_.folded_gradient);
}

}  // namespace snake_ddp::learners
