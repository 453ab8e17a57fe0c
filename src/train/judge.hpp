// Evaluation shared by all ranks.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "dist/context.hpp"
#include "rollout/player.hpp"

namespace snake_ddp::train {

/// Two players, not owned.
struct Pairing {
  const rollout::Player* a;
  const rollout::Player* b;
};

/// Reports progress; the next report may take that much longer than usual.
using Alive = std::function<void(std::chrono::milliseconds longer)>;

/// Plays options.games games of each pairing, with the same starting boards for all, split among the
/// ranks, and sums the results.
/// Collective  the same results on each rank, for any number of ranks; options.part, parts and stop are set here.
/// Returns     nothing, on all ranks, if `stopping` reported a stop request on any of them: within a second.
/// Waits       for the other ranks as long as this one played, plus the group's timeout; before that calls `alive`, if it is set.
/// Throws      DistError.
std::optional<std::vector<play::MatchResult>> judge_all(const std::vector<Pairing>& pairings,
                                                        play::MatchOptions options,
                                                        dist::DistContext& context,
                                                        const std::function<bool()>& stopping,
                                                        const Alive& alive = {});

/// Plays one pairing.
std::optional<play::MatchResult> judge(const rollout::Player& a, const rollout::Player& b,
                                       play::MatchOptions options, dist::DistContext& context,
                                       const std::function<bool()>& stopping, const Alive& alive = {});

}  // namespace snake_ddp::train
