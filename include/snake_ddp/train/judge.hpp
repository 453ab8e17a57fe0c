// Evaluation shared by all ranks.
#pragma once

#include <vector>

#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/rollout/match.hpp"

namespace snake_ddp::train {

/// Two players, not owned.
struct Pairing {
  const rollout::Player* a;
  const rollout::Player* b;
};

/// Plays options.games games of each pairing, the same deals for all, each rank its share, and sums the results.
/// Collective  the same results on each rank, for any number of ranks; options.part and parts are set here.
/// Waits       for the other ranks as long as this one played, and the group's timeout.
/// Throws      DistError.
std::vector<rollout::MatchResult> judge_all(const std::vector<Pairing>& pairings,
                                            rollout::MatchOptions options, dist::DistContext& context);

/// The same of one pairing.
rollout::MatchResult judge(const rollout::Player& a, const rollout::Player& b, rollout::MatchOptions options,
                           dist::DistContext& context);

}  // namespace snake_ddp::train
