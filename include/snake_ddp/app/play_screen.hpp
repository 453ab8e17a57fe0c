// The screen of `snake_ddp play`.
#pragma once

#include <string>

#include "snake_ddp/app/terminal.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::app {

struct PlayScreen {
  const game::State& state;
  int you = 0;       // the person's snake
  std::string says;  // a line below the board
  base::Abilities abilities;
};

/// At most 80 columns and 24 lines. In colour and UTF-8 each cell is three half characters wide and high; otherwise
/// as board_text.
std::string play_text(const PlayScreen& screen);

}  // namespace snake_ddp::app
