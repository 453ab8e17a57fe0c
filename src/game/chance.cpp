#include "snake_ddp/game/chance.hpp"

namespace snake_ddp::game {

namespace {

void note(RecordedChance& chance, const char* what) {
  if (chance.illegal == nullptr) chance.illegal = what;
}

}  // namespace

std::uint8_t RecordedChance::turn(int snake, std::uint8_t forbidden) {
  const std::uint8_t direction = turned[snake];
  // A direction that no reversal asked for is compared by the caller, with the step's result.
  return direction < 4 && direction != forbidden ? direction
                                                 : static_cast<std::uint8_t>(forbidden == 0 ? 1 : 0);
}

int RecordedChance::bean(const State& state) {
  if (beans_used < n_new_beans) {
    const int cell = new_beans[beans_used++];
    if (cell >= 0 && cell < kCells && state.code(cell) == 0) return cell;
    note(*this, "a new bean on a cell that is not free");
  } else {
    note(*this, "fewer new beans than were missing");
  }
  return state.nth_free(0);
}

}  // namespace snake_ddp::game
