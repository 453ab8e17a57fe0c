// The two teams' views of one board.
#pragma once

#include <cstdint>
#include <cstring>

#include "snake_ddp/core/host_device.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

/// The board with sides swapped: snake i becomes snake (i + 3) mod 6, team 0 becomes team 1. Swapping twice gives the board
/// itself. Observations, rewards and forbidden moves of team 1 are those of team 0 on the result.
/// The rules process snakes in index order, so a step does not commute with this if two of them
/// want the same bean.
SD_HD inline State with_sides_swapped(const State& state) {
  State swapped = state;
  // Four cells at a time, each in its byte: codes from 2 on grow by 3, from 5 on they shrink by 3.
  static_assert(kCells % 4 == 0 && kTeamSize == 3);
  SD_ROLLED for (int c = 0; c < kCells; c += 4) {
    std::uint32_t cells = 0;
    memcpy(&cells, state.cells + c, sizeof cells);
    const std::uint32_t codes = cells & 0x07070707U, from_2 = (codes + 0x06060606U) >> 3 & 0x01010101U,
                        from_5 = (codes + 0x03030303U) >> 3 & 0x01010101U;
    cells += 3 * from_2 - 6 * from_5;
    memcpy(swapped.cells + c, &cells, sizeof cells);
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
