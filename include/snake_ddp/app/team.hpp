// Team SPECs of the command line: a scripted opponent, or an actor's file.
#pragma once

#include <memory>
#include <string>

#include "snake_ddp/nets/policy.hpp"
#include "snake_ddp/rollout/player.hpp"

namespace snake_ddp::app {

struct Team {
  std::unique_ptr<nets::Policy> policy;     // empty for a scripted team
  nets::Head head = nets::Head::kIdentity;  // an actor's last layer
  rollout::Player player;                   // refers to `policy`
};

/// `random`, `level0`..`level4`, `evasion`, `territory`, a path to an actor_*.pth, or PATH:argmax. The names in the file give the
/// kind of network. Its record gives the features and an actor's last layer. For a file without a record, the shapes give the
/// features; the last layer, and what --tokens needs, come from the config.json of the file's run; without one it is
/// softmax. A Q-network makes the best move that is not fatal; `mask_fatal` keeps an actor from fatal moves, too.
/// Throws      UsageError for a SPEC that is none of these; FileError for a file that cannot be used.
Team team_from_spec(const std::string& spec, bool mask_fatal = false);

}  // namespace snake_ddp::app
