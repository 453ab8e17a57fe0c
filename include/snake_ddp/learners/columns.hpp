// The columns that learners need from replay.
#pragma once

#include <cstdint>
#include <vector>

#include "snake_ddp/nets/team.hpp"
#include "snake_ddp/replay/buffer.hpp"

namespace snake_ddp::learners {

using nets::kTeam;
inline constexpr std::int64_t kActions = nets::kMoves;

/// Columns of a batch, by index.
enum Column : std::size_t {
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
};

/// The columns up to `last`.
std::vector<replay::Column> columns_up_to(Column last, std::int64_t features);

}  // namespace snake_ddp::learners
