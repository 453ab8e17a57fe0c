// The two teams' views of one board.
#pragma once

#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

/// The board with sides swapped: snake i becomes snake (i + 3) mod 6, team 0 becomes team 1. Swapping twice gives the board
/// itself. Observations, rewards and forbidden moves of team 1 are those of team 0 on the result.
/// The rules process snakes in index order, so a step does not commute with this if two of them
/// want the same bean.
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
