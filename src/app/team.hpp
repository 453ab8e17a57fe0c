// Team SPECs of the command line: a scripted opponent, or a network's file and how to play with it.
#pragma once

#include <memory>
#include <string>

#include "nets/policy.hpp"
#include "rollout/player.hpp"

namespace snake_ddp::app {

/// The trained team that comes with the sources; the path is relative to their root.
inline constexpr const char* kChampion = "models/champion.pth";

struct Team {
  std::unique_ptr<nets::Policy> policy;     // empty for a scripted team
  nets::Head head = nets::Head::kIdentity;  // an actor's last layer
  rollout::Player player;                   // refers to `policy`
  std::string identity = {};                // equal for two spellings of one team
  std::string remark = {};                  // for the user, about the file; usually empty
};

/// `random`, a script of game::kOpponents, a path to an actor_*.pth, PATH:argmax, or, for a Q-network, PATH:SEARCH as in
/// play::try_spec.
/// Before these there may be words of train::take_word about a file without a record: PATH:softmax, PATH:ahead:look4.
/// The tensor names in the file determine the kind of network, train::actor_record what it means. A Q-network makes the best
/// move that is not fatal; `mask_fatal` keeps an actor from fatal moves, too.
/// `head` is an actor's last layer, if a flag names it.
/// Throws      UsageError for a SPEC that is none of these, and for a search with a network that cannot search; FileError for a
///             file that cannot be used.
Team team_from_spec(const std::string& spec, bool mask_fatal = false, const std::string& head = {});

/// Prints the team's remark, if it has one.
void tell_remark(const Team& team);

/// The file in a SPEC; and the file with the words about its weights, without the way to play it.
std::string file_of_spec(const std::string& spec);
std::string weights_of_spec(const std::string& spec);

}  // namespace snake_ddp::app
