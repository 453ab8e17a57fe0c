// Games between two teams, many at a time, for judging.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "snake_ddp/agents/opponents.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/nets/policy.hpp"
#include "snake_ddp/rollout/sight.hpp"

namespace snake_ddp::rollout {

/// One side of a match: a scripted opponent, or a policy with the way it sees.
struct Player {
  std::optional<agents::Opponent> scripted;
  nets::Policy* policy = nullptr;  // not owned; used where `scripted` is empty
  Sight sight;
  bool argmax =
      false;  // else moves are sampled, as on the platform; a policy that answers values knows no other way
  bool mask_fatal = false;  // makes no move that encode::fatal_moves names; scripted opponents do as they do
};

struct MatchOptions {
  std::int64_t games = 200;
  std::uint64_t seed = 1;
  bool swap_sides = true;  // player a is team B in every second game
  // Shares the games over processes: this one plays the blocks with index part mod parts.
  std::int64_t part = 0;
  std::int64_t parts = 1;
  /// Called with the game's number after its deal and after each of its steps, where set.
  std::function<void(std::int64_t game, const game::State&)> watch = {};
  /// Called after each step, before `watch`, with what was played, where set.
  std::function<void(std::int64_t game, const game::Actions&, const game::StepResult&,
                     const game::State& after)>
      on_step = {};
  /// Asked before each step, where set; once it says yes, nothing more is played.
  std::function<bool()> stop = {};
};

/// Sums over games, so results of several parts add up to the same numbers however the games were shared.
struct MatchResult {
  std::int64_t games = 0, wins = 0, draws = 0, losses = 0;  // of player a
  std::int64_t score_a = 0, score_b = 0;  // sums of the platform's n_return: step rewards of a team
  std::int64_t steps = 0;

  void add(const MatchResult& other);
  [[nodiscard]] double win_rate() const;
};

/// Plays the games. Game k depends on (seed, k) and the players alone: games are played in blocks of 64, and
/// a game keeps its place in its block, so networks meet the same batch shapes wherever it is played.
/// Returns  the games that ended before options.stop said yes.
MatchResult play_match(const Player& a, const Player& b, const MatchOptions& options);

struct Interval {
  double low, high;
};

/// The Wilson score interval of a proportion.
/// Follows  Wilson (1927), "Probable inference, the law of succession, and statistical inference".
Interval wilson_interval(std::int64_t successes, std::int64_t trials, double z = 1.959963984540054);

}  // namespace snake_ddp::rollout
