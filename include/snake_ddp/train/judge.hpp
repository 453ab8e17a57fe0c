// Evaluation shared by all ranks.
#pragma once

#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/rollout/match.hpp"

namespace snake_ddp::train {

/// Plays options.games games, each rank its share, and sums the results.
/// Collective  the same result on each rank, for any number of ranks; options.part and parts are set here.
/// Throws      DistError.
rollout::MatchResult judge(const rollout::Player& a, const rollout::Player& b, rollout::MatchOptions options,
                           dist::DistContext& context);

}  // namespace snake_ddp::train
