// A rollout's arrays as plain values, for kernels.
#pragma once

#include <cstdint>

#include "snake_ddp/core/host_device.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::rollout {

/// The teams that learn: team A of every board, and team B of a range of boards, on which the policy plays itself.
struct Seats {
  std::int64_t boards = 0, first_self = 0, selves = 0;

  [[nodiscard]] SD_HD std::int64_t count() const { return boards + selves; }
  [[nodiscard]] SD_HD int team(std::int64_t seat) const { return seat < boards ? 0 : 1; }
  [[nodiscard]] SD_HD std::int64_t board(std::int64_t seat) const {
    return seat < boards ? seat : first_self + seat - boards;
  }
  /// The seat of a team that learns.
  [[nodiscard]] SD_HD std::int64_t of(std::int64_t board, int team) const {
    return team == 0 ? board : boards + board - first_self;
  }
  /// How many teams decide before this one in a step: board by board.
  [[nodiscard]] SD_HD std::int64_t before(std::int64_t board, int team) const {
    const std::int64_t past = board - first_self;
    return board + (past < 0 ? 0 : past < selves ? past : selves) + team;
  }
};

/// The step of the rollout that is played, batches taken of the last one, batches ever taken.
enum RolloutCounter : std::int64_t { kStep, kTaken, kDraw, kRolloutCounters };

/// A rollout's arrays; rows are [steps, seats].
struct RolloutArrays {
  Seats seats;
  std::int64_t steps;
  game::State* board;  // as the seat's team sees it, as team A
  float* action;       // [rows, 12], one-hot
  float* reward;       // [rows, 3]; later the returns
  float* discount;  // [rows], 0 at a game's end; below 0 where it was cut off, and goes on from `cut_board`
  float* value;     // [rows, 3], what the policy expected when it moved
  // Of games that were cut off: a seat's are at least `cut_every` steps apart, so each such piece of the rollout has one at most.
  std::int64_t cut_every;
  game::State* cut_board;         // [pieces, seats], with a value [3] each
  float *cut_value, *last_value;  // the last one [seats, 3]
  std::int64_t* counter;          // [kRolloutCounters]

  /// The place of a game that was cut off at step `t`.
  [[nodiscard]] SD_HD std::int64_t cut_at(std::int64_t t, std::int64_t seat) const {
    return t / cut_every * seats.count() + seat;
  }
};

}  // namespace snake_ddp::rollout
