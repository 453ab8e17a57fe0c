// Ratings of players who have all played each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace snake_ddp::play {

/// The result of the games between players `a` and `b`, from `a`'s side.
struct Meeting {
  std::size_t a = 0, b = 0;
  std::int64_t wins = 0, draws = 0, losses = 0;
};

/// Elo points, and the ends of the 95 % interval.
struct Rating {
  double elo = 0, low = 0, high = 0;
};

/// The maximum-likelihood ratings: a beats b with probability 1 / (1 + 10^((b - a) / 400)), a draw
/// counts as half a win and half a loss. Each meeting gets one extra draw, so a player who won or lost
/// all games still has a finite rating. The intervals follow from the information matrix; a draw counts there like any
/// other game, which makes them slightly too wide. The player `anchor` has rating 0 and no interval; without one the
/// mean is 0.
/// Shapes   one rating per player, in their order; each pair of players is in `meetings` once.
/// Cost     a few solutions of a system with as many unknowns as players.
/// Throws   Bug if two players never met.
/// Follows  Bradley and Terry (1952), "Rank analysis of incomplete block designs", by Newton's method.
std::vector<Rating> fit_elo(std::size_t players, const std::vector<Meeting>& meetings,
                            std::optional<std::size_t> anchor);

/// The test of two hypotheses about a player's strength above its opponent, in Elo, that goes on until one is rejected.
struct Sprt {
  double elo0 = 0, elo1 = 0;
};

/// The log-likelihood ratio of elo1 to elo0, by the normal approximation to the mean of pairs of games with sides swapped. At
/// sprt_bound() or above elo0 is rejected, at -sprt_bound() or below elo1: wrongly in at most 5 % of tests each.
/// Shapes   pairs as MatchResult::pairs.
/// Follows  Wald (1945), "Sequential tests of statistical hypotheses", and Van den Bergh, "A practical introduction to the GSPRT".
double log_likelihood_ratio(const std::array<std::int64_t, 5>& pairs, const Sprt& test);
double sprt_bound();

}  // namespace snake_ddp::play
