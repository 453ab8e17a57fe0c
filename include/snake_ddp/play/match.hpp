// Games between two teams, many at a time, for evaluation.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/state.hpp"
#include "snake_ddp/play/deaths.hpp"
#include "snake_ddp/play/reasons.hpp"

namespace snake_ddp::play {

/// Chooses the moves of one team: a script, a network, a search.
class Mover {
 public:
  virtual ~Mover() = default;

  /// Chooses the moves of team `team[k]` on each board k whose game is still running, and says why where there is room for
  /// reasons. A script has none.
  /// Shapes  boards, team, actions [K], reasons [K] or empty; board k is that of game `first_game` + k. The same boards come
  ///         with each step of their games, so a mover may keep memory by place.
  virtual void act(std::span<const game::State> boards, std::span<const std::uint8_t> team,
                   std::int64_t first_game, std::span<game::Actions> actions, std::span<Reasons> reasons) = 0;
};

/// Thrown by a mover that was told to stop while it was choosing.
struct Cut {};

/// Makes a mover for games from their start on; `seed` is the match's.
using MakeMover = std::function<std::unique_ptr<Mover>(std::uint64_t seed)>;

/// The mover of a scripted opponent.
MakeMover scripted(game::Opponent opponent);

/// Games are played in blocks of this size; a mover gets at most this many boards.
inline constexpr std::int64_t kBlock = 64;

struct MatchOptions {
  std::int64_t games = 200;
  std::uint64_t seed = 1;
  bool swap_sides = true;  // player a is team B in every second game
  bool paired = false;     // a game and the next one have the same boards and luck; see MatchResult::pairs
  // Shares the games among processes: this one plays the blocks with index part mod parts.
  std::int64_t part = 0;
  std::int64_t parts = 1;
  /// Called, if set, with the game's number after its start and after each of its steps.
  std::function<void(std::int64_t game, const game::State&)> watch = {};
  /// Called, if set, before each step with why a team is about to make its moves. Without it movers give no reasons.
  std::function<void(std::int64_t game, int team, const Reasons&)> on_reasons = {};
  /// Called, if set, after each step and before `watch`, with the actions.
  std::function<void(std::int64_t game, const game::Actions&, const game::StepResult&,
                     const game::State& after)>
      on_step = {};
  /// Called, if set, before each step, and by searches, which then throw Cut; once it returns true, play ends.
  std::function<bool()> stop = {};
  /// Called, if set, after each step of a block, with the share of this part that has been played.
  std::function<void(double share)> progress = {};
};

/// Sums over games, each an int64, so results of several parts add up to the same numbers however the games were shared.
struct MatchResult {
  std::int64_t games = 0, wins = 0, draws = 0, losses = 0;  // of player a
  std::int64_t score_a = 0, score_b = 0;  // sums of the platform's n_return: step rewards of a team
  std::int64_t steps = 0;
  DeathSums deaths_a{}, deaths_b{};
  /// Pairs of games with sides swapped, by twice the points that player a has of both: 0 for two losses to 4 for two wins. With
  /// `paired` only.
  std::array<std::int64_t, 5> pairs{};

  void add(const MatchResult& other);
  [[nodiscard]] double win_rate() const;
  /// Of a game.
  [[nodiscard]] double mean_a() const { return static_cast<double>(score_a) / static_cast<double>(games); }
  [[nodiscard]] double mean_b() const { return static_cast<double>(score_b) / static_cast<double>(games); }
};

/// Plays the games. Game k depends only on (seed, k) and the movers: a game keeps its place in its block, so networks get
/// the same batch shapes in whichever process it is played.
/// Returns  the games that ended before options.stop returned true.
MatchResult play_match(const MakeMover& a, const MakeMover& b, const MatchOptions& options);

struct Interval {
  double low, high;
};

/// The Wilson score interval of a proportion.
/// Follows  Wilson (1927), "Probable inference, the law of succession, and statistical inference".
Interval wilson_interval(std::int64_t successes, std::int64_t trials, double z = 1.959963984540054);

}  // namespace snake_ddp::play
