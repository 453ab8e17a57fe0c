// Players of matches: scripted opponents, networks, and searches with a network.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "nets/policy.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/play/match.hpp"
#include "snake_ddp/play/mover.hpp"
#include "snake_ddp/play/obs_spec.hpp"

namespace snake_ddp::rollout {

/// A scripted opponent, or a policy and what it sees.
struct Player {
  std::optional<game::Opponent> scripted;
  nets::Policy* policy = nullptr;  // not owned; used where `scripted` is empty
  play::ObsSpec obs_spec;
  bool argmax = false;      // else moves are sampled, as on the platform; values always mean the best move
  bool mask_fatal = false;  // never makes a move of game::fatal_moves; scripted opponents ignore it
  std::shared_ptr<const play::Searcher> search = nullptr;  // if set, it moves, with this observation
};

/// The weights of a Q-network in search's form, not folded.
/// Throws  FileError unless they are those of a Q-network without memory. `what` names the source.
play::QWeights search_weights(const nets::NamedTensors& weights, const std::string& what);

/// `player` with a Q-network of these weights; it searches with it if a search is given.
/// Throws  as search_weights.
Player with_search(Player player, const std::optional<play::SearchSpec>& how, const play::Training& training,
                   const nets::NamedTensors& weights, const std::string& what = "this run");

/// Throws  Bug for a player without script and policy.
/// `stop`: as in MatchOptions; searches end with it.
play::MakeMover mover(const Player& player, const std::function<bool()>& stop = {});

/// As play::play_match; throws as mover.
play::MatchResult play_match(const Player& a, const Player& b, const play::MatchOptions& options);

}  // namespace snake_ddp::rollout
