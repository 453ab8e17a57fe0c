// QMIX with recurrent agents: a recurrent Q-network shared by the three snakes, learned from windows of consecutive
// transitions, its values mixed into the team's by a monotonic network.
// Follows  Rashid et al., "QMIX", arXiv:1803.11485; windows and their burn-in: Kapturowski et al., "Recurrent experience
//          replay in distributed reinforcement learning" (R2D2), ICLR 2019. See docs/learners/qmix.md for the equations
//          and differences.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "entries.hpp"
#include "nets/gru_net.hpp"
#include "q_learner.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::learners {

namespace {

void check(const LearnerOptions& o) {
  if (o.burn_in >= o.sequence_length)
    throw core::UsageError(fmt::format(
        "--burn_in {} leaves nothing to learn from in windows of --sequence_length {}: lower the first",
        o.burn_in, o.sequence_length));
}

nets::GruNet gru_net(const LearnerOptions& o) {
  return {{o.features, o.hidden_size, kActions}, o.device, nets::kQNetName, o.backend};
}

class Rqmix final : public QLearnerWith<nets::GruNet, nets::GruPolicy> {
 public:
  explicit Rqmix(const LearnerOptions& o)
      : QLearnerWith((check(o), o), Value::kMixed, kBack, gru_net(o), gru_net(o)) {}

  // Batches are window after window, `back` as Buffer::sample_windows leaves it.
  // L = 1/N sum of Huber(error) over the windows' transitions after the burn-in, N as if no row were missing.
  void update(const Batch& batch, const Average& average) override {
    const c10::NoGradGuard no_grad;
    const std::int64_t length = options_.sequence_length, burn_in = options_.burn_in,
                       windows = batch.columns.at(kBack).size(0) / length, rows = windows * kTeamSize,
                       learned = length - burn_in, width = options_.features + 1;
    // Window after window -> step after step.
    const auto by_step = [&](TransitionColumn c) {
      const at::Tensor& all = batch.columns[c];
      return all.view({windows, length, all.numel() / all.size(0)}).transpose(0, 1);
    };
    // All steps, and the observation after the last one: any other step's next observation is that of the following
    // step.
    const at::Tensor by_team =
        at::empty({length + 1, windows, kTeamSize * width}, q_.gradient.flat().options());
    by_team.narrow(0, 0, length).copy_(by_step(kObservation));
    by_team[length].copy_(by_step(kNextObservation)[length - 1]);
    const at::Tensor seen = by_team.view({length + 1, rows, width});
    // The transitions that are learned from, a row for each snake.
    const auto learned_rows = [&](const at::Tensor& steps, std::int64_t first, std::int64_t floats) {
      return steps.narrow(0, first, learned).contiguous().to(options_.device).view({-1, floats});
    };
    const Transitions t = {
        learned_rows(seen, burn_in, width),         learned_rows(by_step(kAction), burn_in, kActions),
        learned_rows(by_step(kReward), burn_in, 1), learned_rows(by_step(kDiscount), burn_in, 1),
        learned_rows(seen, burn_in + 1, width),     learned_rows(by_step(kNextMoves), burn_in, kActions)};
    const at::Tensor in_window = by_step(kBack).to(options_.device);
    const at::Tensor valid =
        at::cat({in_window, at::ones_like(in_window.narrow(0, 0, 1))}).repeat_interleave(kTeamSize, 1);
    nets::forward(q_.net, seen, {}, valid, pass_, burn_in);
    nets::forward(q_.target(), seen, {}, valid, target_pass_, burn_in + 1, /*keep=*/false);

    const auto values_from = [&](const nets::GruPass& pass, std::int64_t first) {
      return pass.output.narrow(0, first, learned).view({learned * rows, kActions});
    };
    const at::Tensor gradient =
        double_q_gradient(t, values_from(pass_, 0), values_from(pass_, 1), values_from(target_pass_, 0),
                          in_window.narrow(0, burn_in, learned).reshape({-1, 1}));
    nets::backward(q_.net, seen, valid, pass_, length - 1, gradient.view({learned, rows, kActions}),
                   q_.gradient);
    norm_ = q_.step(average);
    if (mixing_) mixing_->step(average);
  }

 private:
  nets::GruPass pass_, target_pass_;
};

}  // namespace

std::vector<LearnerEntry> rqmix_entries() {
  return {{.name = "rqmix",
           .make = make<Rqmix>,
           .flags = flags_of<NetFlags, TargetFlags, WindowFlags>,
           .feed = Feed::kWindows,
           .tokens = true,
           .team_value = true,
           .defaults = {{"own_reward", 0.0}},
           .check = check}};
}

}  // namespace snake_ddp::learners
