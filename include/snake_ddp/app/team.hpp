// Team SPECs of the command line: a scripted opponent, or an actor's file.
#pragma once

#include <memory>
#include <string>

#include "snake_ddp/nets/policy.hpp"
#include "snake_ddp/rollout/match.hpp"

namespace snake_ddp::app {

struct Team {
  std::unique_ptr<nets::ActorPolicy> actor;  // empty for a scripted team
  rollout::Player player;                    // refers to `actor`
};

/// `random`, `level0`..`level4`, `evasion`, a path to an actor_*.pth, or PATH:argmax. The features are told
/// from the file's shapes; the last layer from the config.json of the run that the file lies in, softmax
/// without one.
/// Throws      UsageError for a SPEC that is none of these; FileError for a file that cannot be used.
Team team_from_spec(const std::string& spec);

/// The last layer of the actor in the file `actor`, which does not say it: from the config.json of the run that the file
/// lies in, softmax without one.
nets::Head head_of_run(const std::string& actor);

}  // namespace snake_ddp::app
