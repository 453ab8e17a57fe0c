// Fatal moves, which a policy need not learn to avoid.
#pragma once

#include "snake_ddp/core/host_device.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

/// Bit d is set if moving in direction d leads into a segment that will certainly be there after the step: any but
/// a tail, of any snake. The snake then dies, whatever the others do. A tail's cell becomes free unless its
/// snake eats in this step, and a free cell may be entered by another head: neither is certain, so neither is
/// set. The reversal's bit is also set, because the game replaces it by a random move.
SD_HD inline unsigned fatal_moves(const State& state, int snake) {
  const int head = state.head(snake);
  unsigned bits = 1U << (state.direction(snake) ^ 1);
  for (int d = 0; d < 4; ++d) {
    const int cell = follow(head, d), code = state.code(cell);
    const int owner = code > 1 ? code - 2 : 0;
    bits |= (code > 1 && state.tails[owner] != cell ? 1U : 0U) << d;
  }
  return bits;
}

/// The moves left to a snake that makes no fatal one; all four if every move is fatal. Never 0.
SD_HD inline unsigned open_moves(const State& state, int snake) {
  const unsigned open = ~fatal_moves(state, snake) & 15U;
  return open != 0 ? open : 15U;
}

}  // namespace snake_ddp::game
