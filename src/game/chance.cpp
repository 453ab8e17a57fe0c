#include "snake_ddp/game/chance.hpp"

namespace snake_ddp::game {

std::uint8_t RecordedChance::turn(int snake, std::uint8_t forbidden) const {
  const std::uint8_t direction = turned[snake];
  return direction < 4 && direction != forbidden ? direction
                                                 : static_cast<std::uint8_t>(forbidden == 0 ? 1 : 0);
}

int RecordedChance::bean(const State& state) {
  const int place = state.bean_count();  // new beans are appended
  if (place < n_beans) {
    const int cell = beans[place];
    if (cell >= 0 && cell < kCells && state.code(cell) == 0) return cell;
    if (illegal == nullptr) illegal = "a new bean on a cell that is not free";
  } else if (illegal == nullptr) {
    illegal = "fewer new beans than were missing";
  }
  return state.nth_free(0);
}

}  // namespace snake_ddp::game
