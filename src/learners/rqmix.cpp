// QMIX with recurrent agents: a recurrent Q-network shared by the three snakes, learned from windows of consecutive
// transitions, its values mixed into the team's by a monotonic network.
// Follows  Rashid et al., "QMIX", arXiv:1803.11485; windows and their burn-in: Kapturowski et al., "Recurrent experience
//          replay in distributed reinforcement learning" (R2D2), ICLR 2019. See docs/learners/qmix.md for the equations
//          and differences.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "entries.hpp"
#include "q_learner.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/nets/gru_net.hpp"

namespace snake_ddp::learners {

namespace {

void check(const LearnerOptions& o) {
  if (o.burn_in >= o.sequence_length)
    throw base::UsageError(fmt::format(
        "--burn_in {} leaves nothing to learn from in windows of --sequence_length {}: lower the first",
        o.burn_in, o.sequence_length));
}

nets::GruNet gru_net(const LearnerOptions& o) {
  return {{o.features, o.hidden_size, kActions}, o.device, nets::kQNetName};
}

class Rqmix final : public QLearnerWith<nets::GruNet, nets::GruPolicy> {
 public:
  explicit Rqmix(const LearnerOptions& o)
      : QLearnerWith((check(o), o), Value::kMixed, kBack, gru_net(o), gru_net(o)) {}

  // Batches are window after window, `back` as replay::Buffer::sample_windows leaves it.
  // L = 1/N sum of Huber(error) over the windows' transitions after the burn-in, N as if no row were missing.
  void update(const replay::Batch& batch, const Average& average) override {
    const c10::NoGradGuard no_grad;
    const std::int64_t length = options_.sequence_length, burn_in = options_.burn_in,
                       windows = batch.columns.at(kBack).size(0) / length, rows = windows * kTeam,
                       learned = length - burn_in, width = options_.features + 1;
    // Window after window -> step after step, from `first` on.
    const auto by_step = [&](Column c, std::int64_t first) {
      const at::Tensor& all = batch.columns[c];
      return all.view({windows, length, all.numel() / all.size(0)})
          .transpose(0, 1)
          .narrow(0, first, length - first)
          .contiguous()
          .to(options_.device);
    };
    // The transitions that are learned from, a row for each snake.
    const auto learned_rows = [&](Column c, std::int64_t floats) {
      return by_step(c, burn_in).view({-1, floats});
    };
    const at::Tensor seen_by_team = by_step(kObservation, 0), in_window = by_step(kBack, 0);
    const Transitions t = {seen_by_team.narrow(0, burn_in, learned).view({-1, width}),
                           learned_rows(kAction, kActions),
                           learned_rows(kReward, 1),
                           learned_rows(kDiscount, 1),
                           learned_rows(kNextObservation, width),
                           learned_rows(kNextMoves, kActions)};
    // All steps, and the observation after the last one: any other step's next observation is that of the following
    // step.
    const at::Tensor seen = at::cat({seen_by_team.view({length * rows, width}),
                                     t.next_observation.narrow(0, (learned - 1) * rows, rows)})
                                .view({length + 1, rows, width});
    const at::Tensor there =
        at::cat({in_window, at::ones_like(in_window.narrow(0, 0, 1))}).repeat_interleave(kTeam, 1);
    const at::Tensor start = at::zeros({rows, options_.hidden_size}, seen.options());
    nets::forward(q_.net, seen, start, there, pass_);
    nets::forward(q_.target(), seen, start, there, target_pass_);

    const auto values_from = [&](const nets::GruPass& pass, std::int64_t first) {
      return pass.output.narrow(0, first, learned).view({learned * rows, kActions});
    };
    const at::Tensor gradient = double_q_gradient(
        t, values_from(pass_, burn_in), values_from(pass_, burn_in + 1),
        values_from(target_pass_, burn_in + 1), in_window.narrow(0, burn_in, learned).view({-1, 1}));
    nets::backward(q_.net, seen, there, pass_, burn_in, length - 1, gradient.view({learned, rows, kActions}),
                   q_.gradient);
    step(average);
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
           .check = check}};
}

}  // namespace snake_ddp::learners
