#include "snake_ddp/train/judge.hpp"

#include <ATen/ATen.h>

#include <chrono>
#include <utility>

namespace snake_ddp::train {
namespace {

constexpr std::int64_t kSums = 7;

void add_up(std::vector<rollout::MatchResult>& results, base::Deadline deadline, dist::DistContext& context) {
  at::Tensor sums = at::empty({static_cast<std::int64_t>(results.size()), kSums}, at::kLong);
  auto* s = sums.data_ptr<std::int64_t>();
  for (const rollout::MatchResult& r : results) {
    for (const std::int64_t sum : {r.games, r.wins, r.draws, r.losses, r.score_a, r.score_b, r.steps})
      *s++ = sum;
  }
  at::Tensor there = sums.to(context.device());  // NCCL sums what is on its device only
  context.all_reduce_sum(there, deadline);
  sums = there.to(at::kCPU);
  s = sums.data_ptr<std::int64_t>();
  for (rollout::MatchResult& r : results) {
    r = {s[0], s[1], s[2], s[3], s[4], s[5], s[6]};
    s += kSums;
  }
}

}  // namespace

std::vector<rollout::MatchResult> judge_all(const std::vector<Pairing>& pairings,
                                            rollout::MatchOptions options, dist::DistContext& context) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<rollout::MatchResult> results;
  options.parts = context.size();
  for (std::size_t i = 0; i < pairings.size(); ++i) {
    // Blocks seldom divide evenly among ranks; who has one more goes round.
    options.part = (context.rank() + static_cast<std::int64_t>(i)) % context.size();
    results.push_back(rollout::play_match(*pairings[i].a, *pairings[i].b, options));
  }
  if (context.size() > 1) {
    // Ranks that run more slowly need longer by a share of what they do.
    const auto played =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    add_up(results, base::Deadline::in(context.deadline().left() + played), context);
  }
  return results;
}

rollout::MatchResult judge(const rollout::Player& a, const rollout::Player& b, rollout::MatchOptions options,
                           dist::DistContext& context) {
  return judge_all({{&a, &b}}, std::move(options), context).front();
}

}  // namespace snake_ddp::train
