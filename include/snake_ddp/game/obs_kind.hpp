// The kinds of observation, and what "up" means in each.
#pragma once

#include "snake_ddp/core/host_device.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

/// The reference's 26 features (heads and beans, absolute), its later variant's 30, and ours: a window around the head
/// and everything in it; the view, which also says where each move leads; the view turned so that the snake's heading
/// is up.
enum class ObsKind { k26, k30, kWindow, kView, kAhead };

/// A view that says what each move leads to?
SD_HD constexpr bool has_move_features(ObsKind kind) {
  return kind == ObsKind::kView || kind == ObsKind::kAhead;
}
/// Already scaled, and relative to the head?
SD_HD constexpr bool is_view(ObsKind kind) { return kind == ObsKind::kWindow || has_move_features(kind); }

/// The direction that is up in what a snake observes.
SD_HD inline int up_of(ObsKind kind, const State& state, int snake) {
  return kind == ObsKind::kAhead ? state.direction(snake) : kUp;
}

/// The direction of a move as an observation with that `up` names it. With a heading as `up`, moves 0 to 3 are ahead,
/// back, to the left and to the right.
SD_HD constexpr int direction_of(int up, int move) {
  // Two bits for each: devices have no constant tables.
  constexpr unsigned kUpwards = 0xE4, kDownwards = 0xB1, kLeftwards = 0x1E, kRightwards = 0x4B;
  constexpr unsigned kAll = kUpwards | kDownwards << 8 | kLeftwards << 16 | kRightwards << 24;
  return static_cast<int>(kAll >> (8 * up + 2 * move) & 3U);
}
/// The move that an observation with that `up` has for a direction.
SD_HD constexpr int move_of(int up, int direction) {
  // Turning left and turning right are each other's inverse.
  return direction_of(up >= kLeft ? up ^ 1 : up, direction);
}

/// A network's outputs for one snake, in the order of directions.
/// Shapes  by_move, by_direction [4].
SD_HD inline void to_directions(int up, const float* by_move, float* by_direction) {
  for (int d = 0; d < kMoves; ++d) by_direction[d] = by_move[move_of(up, d)];
}

}  // namespace snake_ddp::game
