// Team SPECs of the command line: a scripted opponent, or a network's file and how to play with it.
#pragma once

#include <memory>
#include <string>

#include "snake_ddp/nets/policy.hpp"
#include "snake_ddp/rollout/player.hpp"

namespace snake_ddp::app {

struct Team {
  std::unique_ptr<nets::Policy> policy;  // empty for a scripted team
  rollout::Player player;                // refers to `policy`
};

/// `random`, `level0`..`level4`, `evasion`, `territory`, a path to an actor_*.pth, PATH:argmax, or for a
/// Q-network PATH:SEARCH with a search as search::try_spec has it. The kind of network is told from the names in the file, the features from its shapes; an actor's last layer from the config.json of the run
/// that the file lies in, softmax without one; so does what a Q-network needs that was trained with
/// --tokens. A Q-network makes the best move that is not fatal; `mask_fatal` keeps an actor from fatal moves, too.
/// What search takes a network's values for follows from that config.json, too: rival_reward, reward_scale and gamma.
/// Throws      UsageError for a SPEC that is none of these, and for a search with a network that cannot; FileError for a file that cannot be used.
Team team_from_spec(const std::string& spec, bool mask_fatal = false);

/// The file that a SPEC names, without how to play.
std::string file_of_spec(const std::string& spec);

/// The last layer of the actor in the file `actor`, which does not say it: from the config.json of the run that the file
/// lies in, softmax without one.
nets::Head head_of_run(const std::string& actor);

}  // namespace snake_ddp::app
