// The two teams' names for one board.
#pragma once

#include "snake_ddp/game/game.hpp"

namespace snake_ddp::game {

/// The board as the other team names it: snake i is snake (i + 3) mod 6 there, team 0 is team 1. Twice is the board
/// itself. What is seen, rewarded or forbidden for team 1 is what it is for team 0 of the result.
/// The rules go through snakes in index order, so that a step does not commute with this where two of them
/// want one bean.
SD_HD inline State with_sides_swapped(const State& state) {
  State swapped = state;
  for (int c = 0; c < kCells; ++c) {
    const int code = state.cells[c] & 7;
    const int change = code >= 2 + kTeamSize ? -kTeamSize : code >= 2 ? kTeamSize : 0;
    swapped.cells[c] = static_cast<std::uint8_t>(state.cells[c] + change);
  }
  for (int i = 0; i < kSnakes; ++i) {
    const int other = i < kTeamSize ? i + kTeamSize : i - kTeamSize;
    swapped.heads[i] = state.heads[other];
    swapped.tails[i] = state.tails[other];
    swapped.lengths[i] = state.lengths[other];
    swapped.directions[i] = state.directions[other];
  }
  swapped.returns[0] = state.returns[1];
  swapped.returns[1] = state.returns[0];
  return swapped;
}

}  // namespace snake_ddp::game
