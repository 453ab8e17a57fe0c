// Which moves need no learning to be refused.
#pragma once

#include "snake_ddp/base/host_device.hpp"
#include "snake_ddp/game/game.hpp"

namespace snake_ddp::encode {

/// Bit d is set where moving in direction d leads into a segment that will certainly be there after the step: any but
/// a tail, of any snake. The snake then dies, whatever the others do. A tail's cell is free again unless its
/// snake eats in this very step, and a cell that is free now may be another head's: neither is certain, neither is
/// set. The reversal's bit is set too: it is no move, the game replaces it by a random one.
SD_HD inline unsigned fatal_moves(const game::State& state, int snake) {
  const int head = state.head(snake);
  unsigned bits = 1U << (state.direction(snake) ^ 1);
  for (int d = 0; d < 4; ++d) {
    const int cell = game::follow(head, d), code = state.code(cell);
    const int owner = code > 1 ? code - 2 : 0;
    bits |= (code > 1 && state.tails[owner] != cell ? 1U : 0U) << d;
  }
  return bits;
}

/// The moves left to a snake that makes no fatal one; all four where every move is fatal. Never 0.
SD_HD inline unsigned open_moves(const game::State& state, int snake) {
  const unsigned open = ~fatal_moves(state, snake) & 15U;
  return open != 0 ? open : 15U;
}

}  // namespace snake_ddp::encode
