// The rules, compiled once, for callers that play one board at a time. Loops over many boards include game.hpp, which the
// compiler can inline.
#pragma once

#include <cstdint>

#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

/// Which draws a board's chance makes: those of PhiloxChance.
struct Draws {
  std::uint64_t seed, stream;
};

State new_board(const Draws& draws);

/// One step of all snakes, see `step` in game.hpp. `state` must not be done.
StepResult advance(State& state, const Actions& actions, const Draws& draws);

}  // namespace snake_ddp::game
