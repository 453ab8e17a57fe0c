// Team SPECs of the command line: a scripted opponent, or a network's file and how to play with it.
#pragma once

#include <memory>
#include <string>

#include "snake_ddp/nets/policy.hpp"
#include "snake_ddp/rollout/player.hpp"

namespace snake_ddp::app {

/// The trained team that comes with the sources; the path is relative to their root.
inline constexpr const char* kChampion = "models/champion.pth";

struct Team {
  std::unique_ptr<nets::Policy> policy;     // empty for a scripted team
  nets::Head head = nets::Head::kIdentity;  // an actor's last layer
  rollout::Player player;                   // refers to `policy`
};

/// `random`, `level0`..`level4`, `evasion`, `territory`, `territory:WEIGHTS` as in agents::try_weights, a
/// path to an actor_*.pth, PATH:argmax, or, for a Q-network, PATH:SEARCH as in search::try_spec, or
/// PATH:lbr4: a local best response with that many samples, which knows the opposing team.
/// The tensor names in the file determine the kind of network. The file's record gives the features, an
/// actor's last layer, and what a Q-network's values mean for search. For a file without a record, the
/// shapes give the features; the last layer (softmax without it), the rewards and what --tokens needs come
/// from the config.json of the file's run. A Q-network makes the best move that is not fatal; `mask_fatal`
/// keeps an actor from fatal moves, too.
/// Throws      UsageError for a SPEC that is none of these, and for a search with a network that cannot search; FileError for a
///             file that cannot be used.
Team team_from_spec(const std::string& spec, bool mask_fatal = false);

/// The file in a SPEC, without the way to play it.
std::string file_of_spec(const std::string& spec);

}  // namespace snake_ddp::app
