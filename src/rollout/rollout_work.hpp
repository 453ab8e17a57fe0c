// What is done with one seat, or one row, of a rollout, as functors for the host or a device.
#pragma once

#include <cstdint>

#include "rollout/rollout_arrays.hpp"
#include "snake_ddp/core/chunk.hpp"
#include "snake_ddp/core/permutation.hpp"
#include "snake_ddp/play/board_step.hpp"

namespace snake_ddp::rollout {

/// In quarters: a thread has no registers for a whole board.
SD_HD inline void put_board(void* to, const game::State& board) {
  constexpr std::size_t kQuarter = sizeof board / 4;
  for (int k = 0; k < 4; ++k) core::chunk<kQuarter>(to, k) = core::chunk<kQuarter>(&board, k);
}

/// Stores one step of a seat, but for the board of a game that is cut off. `before` is the board as the seat's team sees it, as
/// team A; `outputs` [12] are the policy's, `played` [12] the moves, one-hot.
SD_HD inline void put_turn(const RolloutArrays& r, const play::StepRules& rules, std::int64_t seat,
                           const game::State& before, const float* outputs, const float* played,
                           const float* reward, bool terminated, bool cut) {
  const std::int64_t row = r.counter[kStep] * r.seats.count() + seat;
  put_board(r.board + row, before);
  for (int k = 0; k < play::kActionFloats; ++k) r.action[row * play::kActionFloats + k] = played[k];
  for (int k = 0; k < play::kTeamSize; ++k) r.reward[row * play::kTeamSize + k] = reward[k];
  play::worth_of(rules, before, 0, outputs, r.value + row * play::kTeamSize);
  const auto gamma = static_cast<float>(rules.gamma);
  r.discount[row] = terminated ? 0.0F : cut ? -gamma : gamma;
}

/// What the policy expects of the boards that follow the rollout's last step.
struct ExpectLast {
  RolloutArrays r;
  play::StepRules rules;
  const game::State* boards;
  const float* outputs;  // [seats, 12]

  SD_HD void operator()(std::int64_t seat) const {
    play::worth_of(rules, boards[r.seats.board(seat)], r.seats.team(seat),
                   outputs + seat * play::kActionFloats, r.last_value + seat * play::kTeamSize);
  }
};

/// Values the boards whose games were cut off, as ExpectLast the last ones.
struct ExpectCut {
  RolloutArrays r;
  play::StepRules rules;
  const float* outputs;  // [pieces, seats, 12]

  SD_HD void operator()(std::int64_t cut) const {
    play::worth_of(rules, r.cut_board[cut], 0, outputs + cut * play::kActionFloats,
                   r.cut_value + cut * play::kTeamSize);
  }
};

/// One seat's rewards become lambda-returns, from the last step back.
/// Follows  docs/learners/pqn.md, G_t = r_t + d_t (V_t+1 + lambda (G_t+1 - V_t+1)).
struct Returns {
  RolloutArrays r;
  float lambda;

  SD_HD void operator()(std::int64_t seat) const {
    for (int k = 0; k < play::kTeamSize; ++k) {
      float value = r.last_value[seat * play::kTeamSize + k], reached = value;
      for (std::int64_t t = r.steps; t-- > 0;) {
        const std::int64_t row = t * r.seats.count() + seat, at = row * play::kTeamSize + k;
        const float discount = r.discount[row];
        if (discount < 0.0F) value = reached = r.cut_value[r.cut_at(t, seat) * play::kTeamSize + k];
        const float d = discount < 0.0F ? -discount : discount;
        reached = r.reward[at] + d * (value + lambda * (reached - value));
        r.reward[at] = reached;
        value = r.value[at];
      }
    }
  }
};

/// Once the returns are there: batches come from them, and the next step is a new rollout's first.
struct Begin {
  RolloutArrays r;

  SD_HD void operator()(std::int64_t) const { r.counter[kStep] = r.counter[kTaken] = 0; }
};

/// A batch's rows: the epoch's order is a permutation of all rows, cut into batches of the same size.
struct TakeRows {
  RolloutArrays r;
  std::uint64_t seed;
  std::int64_t batches;  // of an epoch
  std::int64_t* index;   // [rows / batches]

  SD_HD void operator()(std::int64_t i) const {
    const std::int64_t rows = r.steps * r.seats.count(), batch = r.counter[kTaken] % batches,
                       epoch = r.counter[kDraw] - batch;
    index[i] = static_cast<std::int64_t>(
        core::permuted(static_cast<std::uint64_t>(batch * (rows / batches) + i),
                       static_cast<std::uint64_t>(rows), seed, static_cast<std::uint64_t>(epoch)));
  }
};

struct CountBatch {
  RolloutArrays r;

  SD_HD void operator()(std::int64_t) const {
    ++r.counter[kTaken];
    ++r.counter[kDraw];
  }
};

#ifdef SD_HAVE_KERNELS
/// Queue work on a CUDA stream. Return cudaSuccess, or the error.
int launch(const ExpectLast& work, std::int64_t count, void* stream);
int launch(const ExpectCut& work, std::int64_t count, void* stream);
int launch(const Returns& work, std::int64_t count, void* stream);
int launch(const Begin& work, std::int64_t count, void* stream);
int launch(const TakeRows& work, std::int64_t count, void* stream);
int launch(const CountBatch& work, std::int64_t count, void* stream);
#endif

}  // namespace snake_ddp::rollout
