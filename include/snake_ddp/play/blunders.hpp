// What the moves of a game cost, by search on each of its boards.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "snake_ddp/play/mover.hpp"

namespace snake_ddp::play {

/// A board, and the moves that the snakes made on it; kUnknownMove where a move was not recorded.
struct Turn {
  game::State board;
  std::array<int, game::kSnakes> played;
};
inline constexpr int kUnknownMove = -1;

/// A snake's move, and one that is worth more to its team.
struct Loss {
  int step = 0;  // steps played before
  int snake = 0, played = 0, better = 0;
  double value_played = 0.0, value_better = 0.0;  // its own team's expected lead, in points per snake

  /// The lead that it cost.
  [[nodiscard]] double points() const { return game::kTeamSize * (value_better - value_played); }
};

/// The moves that cost anything, worst first, ties in the game's order. One tree finds the best moves and
/// what they are worth; a second tree of the same size, in which the snake makes the move that was played,
/// finds what that move is worth. Foes and mates make their best moves in both.
/// Throws  Bug for a searcher whose search has no fixed number of simulations.
std::vector<Loss> losses_of(const Searcher& searcher, const Evaluate& evaluate, std::span<const Turn> turns);

}  // namespace snake_ddp::play
