// What replay stores of a transition. Compiles for devices.
#pragma once

#include <cstdint>

namespace snake_ddp::learners {

/// Columns of a batch, by index.
enum TransitionColumn : std::int64_t {
  // Of actors and critics, and of Q-learners with the played move as one-hot action.
  kObservation,      // [B, 3, D + 1], the last one constant 1
  kAction,           // [B, 3, 4]
  kReward,           // [B, 3], sum of n discounted rewards
  kNextObservation,  // [B, 3, D + 1], n steps later
  kDiscount,         // [B, 3], gamma^n, 0 where the game ended
  // Of Q-learners.
  kNextMoves,  // [B, 3, 4], above 0 where the move may be made in the next state
  // Of Q-learners that follow a game from step to step.
  kBack,  // [B, 1], how many rows earlier the game's previous transition is, 0 at its first
  kTransitionColumns
};
inline constexpr const char* kColumnNames[kTransitionColumns] = {
    "observation", "action", "reward", "next_observation", "discount", "next_moves", "back"};

}  // namespace snake_ddp::learners
