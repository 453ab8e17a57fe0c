#include "snake_ddp/train/judge.hpp"

#include <ATen/ATen.h>

namespace snake_ddp::train {

rollout::MatchResult judge(const rollout::Player& a, const rollout::Player& b, rollout::MatchOptions options,
                           dist::DistContext& context) {
  options.part = context.rank();
  options.parts = context.size();
  rollout::MatchResult r = rollout::play_match(a, b, options);
  at::Tensor sums =
      at::tensor({r.games, r.wins, r.draws, r.losses, r.score_a, r.score_b, r.steps}, at::kLong);
  if (context.size() > 1) {
    // NCCL sums what is on its device only.
    at::Tensor there = sums.to(context.device());
    context.all_reduce_sum(there, context.deadline());
    sums = there.to(at::kCPU);
  }
  const auto* s = sums.data_ptr<std::int64_t>();
  return {s[0], s[1], s[2], s[3], s[4], s[5], s[6]};
}

}  // namespace snake_ddp::train
