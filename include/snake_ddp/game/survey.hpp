// What the view and the territory heuristic first compute from a board. Eight threads that share memory compute it in
// phases (core/each.hpp): one thread alone would need eleven kilobytes of stack. On the host, reach_of and
// view::surroundings_of do the same in one go.
#pragma once

#include <cstdint>

#include "snake_ddp/core/chunk.hpp"
#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/reach.hpp"

namespace snake_ddp::game {

/// Shared by a board's threads.
struct Surveyed {
  State state;
  Reach reach;
};

inline constexpr int kSurveyLanes = 8, kSurveyPhases = 4;
static_assert(kSurveyLanes >= kSnakes + 2);

/// One thread's part of a phase. `floods`: whether reach is needed. `around`: null if the surroundings are not.
SD_HD inline void survey(int phase, const State& board, int lane, bool floods, Surveyed& s,
                         view::Surroundings* around) {
  if (phase == 0) {
    constexpr int kShare = sizeof(State) / kSurveyLanes, kCleared = sizeof(view::Surroundings) / kSurveyLanes;
    core::chunk<kShare>(&s.state, lane) = core::chunk<kShare>(&board, lane);
    if (around != nullptr) core::chunk<kCleared>(around, lane) = {};
  } else if (phase == 1) {
    std::uint8_t* const age = around != nullptr ? around->age[view::kReach] + view::kReach : nullptr;
    std::uint8_t* const kind = around != nullptr ? around->kind[view::kReach] + view::kReach : nullptr;
    if (lane < kSnakes) {
      auto& stays = s.reach.by[lane];  // until the last phase: the snake's part of `blocked`
      SD_ROLLED for (int t = 0; floods && t <= kHorizon; ++t) stays[t] = CellSet{};
      int cell = s.state.tails[lane];
      for (int steps = 1; steps <= s.state.lengths[lane]; ++steps) {
        if (floods) stays[steps <= kHorizon ? steps - 1 : kHorizon].add(cell);
        if (age != nullptr) age[view::place(cell)] = static_cast<std::uint8_t>(steps);
        cell = follow(cell, s.state.cells[cell] >> 3);
      }
      SD_ROLLED for (int t = kHorizon; floods && t > 0; --t) stays[t - 1] = stays[t - 1] | stays[t];
      if (kind != nullptr && s.state.lengths[lane] > 0)
        kind[view::place(s.state.heads[lane])] = lane < kTeamSize ? 2 : 3;
    } else if (lane == kSnakes) {
      s.reach.beans = CellSet{};
      for (int b = 0; b < s.state.bean_count(); ++b) {
        s.reach.beans.add(s.state.bean(b));
        if (kind != nullptr) kind[view::place(s.state.bean(b))] = 1;
      }
    }
  } else if (phase == 2) {
    SD_ROLLED for (int t = lane; floods && t <= kHorizon; t += kSurveyLanes) {
      CellSet blocked = s.reach.by[0][t];
      for (int i = 1; i < kSnakes; ++i) blocked = blocked | s.reach.by[i][t];
      s.reach.blocked[t] = blocked;
    }
    for (int row = lane; around != nullptr && row < kRows; row += kSurveyLanes) {
      view::repeat_beside(around->age, row);
      view::repeat_beside(around->kind, row);
    }
  } else {
    if (lane < kSnakes) {
      s.reach.by[lane][0] = s.state.length(lane) > 0 ? only(s.state.head(lane)) : CellSet{};
      SD_ROLLED for (int t = 1; floods && t <= kHorizon; ++t) spread_head(s.reach, lane, t);
    } else if (around != nullptr) {
      view::Plane& plane = lane == kSnakes ? around->age : around->kind;
      for (int row = 0; row < view::kReach; ++row) view::repeat_beyond(plane, row);
    }
  }
}

/// Where the move in direction `d` leads, after the survey.
SD_HD inline MoveFeatures move_features_of(const Surveyed& s, int snake, int d) {
  const Others others = others_of(snake);
  return move_features_of(s.state, s.reach, others, snake, d,
                          [&](int t) { return closed_to(s.reach, others, t); });
}

}  // namespace snake_ddp::game
