// Ratings of players who all met each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace snake_ddp::play {

/// What came of the games between players `a` and `b`, seen from `a`.
struct Meeting {
  std::size_t a = 0, b = 0;
  std::int64_t wins = 0, draws = 0, losses = 0;
};

/// Elo points, and the ends of the 95 % interval.
struct Rating {
  double elo = 0, low = 0, high = 0;
};

/// The ratings under which the results are likeliest: a beats b with probability 1 / (1 + 10^((b - a) / 400)), a draw
/// being half a win and half a loss. Each meeting is given one draw that was not played, so a player who won or lost
/// all games has a finite rating. The intervals follow from the information matrix; a draw counts there like any other
/// game, which makes them a little too wide. With `anchor` that player has 0 and no interval, without one the mean is 0.
/// Shapes   one rating a player, in their order; each two players are in `meetings` once.
/// Cost     a few solutions of a system with as many unknowns as players.
/// Throws   Bug where two players never met.
/// Follows  Bradley and Terry (1952), "Rank analysis of incomplete block designs", by Newton's method.
std::vector<Rating> fit_elo(std::size_t players, const std::vector<Meeting>& meetings,
                            std::optional<std::size_t> anchor);

}  // namespace snake_ddp::play
