// Who can be where, and when: bodies free cells as their tails move on, heads spread over the free cells, and each
// cell belongs to whoever gets there first.
#pragma once

#include "snake_ddp/game/cell_set.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

/// Steps looked ahead; two cells of an empty board are at most 15 apart.
inline constexpr int kHorizon = 10;

/// Assumes that nobody eats and that moving on frees a cell, so it is slightly optimistic.
struct Reach {
  CellSet beans;
  CellSet blocked[kHorizon + 1];  // [t]: segments that are still there t steps from now
  CellSet by[kSnakes]
            [kHorizon + 1];  // [snake][t]: where its head can be t steps from now, or could have been before
};

/// A cell of a body.
struct Segment {
  std::uint8_t cell;
  std::uint8_t
      age;  // steps until all segments behind it are gone: 1 for a tail, the snake's length for a head
};

/// All bodies, each from its tail on.
struct Segments {
  int count = 0;
  Segment at[kCells];
};

SD_HD_APART inline Segments segments_of(const State& state) {
  Segments segments;
  for (int i = 0; i < kSnakes; ++i) {
    int cell = state.tails[i];
    for (int age = 1; age <= state.lengths[i]; ++age) {
      segments.at[segments.count++] = {static_cast<std::uint8_t>(cell), static_cast<std::uint8_t>(age)};
      cell = follow(cell, state.cells[cell] >> 3);
    }
  }
  return segments;
}

/// Cost  60 steps of flood fill.
SD_HD_APART inline Reach reach_of(const State& state, const Segments& segments) {
  Reach reach;
  reach.beans = CellSet{};
  for (int b = 0; b < state.bean_count(); ++b) reach.beans = reach.beans | only(state.bean(b));
  CellSet leaving[kHorizon + 2] = {};  // [t]: free from step t on
  for (int k = 0; k < segments.count; ++k) {
    const Segment s = segments.at[k];
    leaving[s.age <= kHorizon ? s.age : kHorizon + 1].add(s.cell);
  }
  reach.blocked[kHorizon] = leaving[kHorizon + 1];
  SD_ROLLED for (int t = kHorizon; t > 0; --t) reach.blocked[t - 1] = reach.blocked[t] | leaving[t];
  for (int i = 0; i < kSnakes; ++i) {
    reach.by[i][0] = state.length(i) > 0 ? only(state.head(i)) : CellSet{};
  }
  SD_ROLLED for (int t = 1; t <= kHorizon; ++t) {
    SD_ROLLED for (int i = 0; i < kSnakes; ++i) {
      const CellSet& before = reach.by[i][t - 1];
      reach.by[i][t] = before | without(spread(before), reach.blocked[t]);
    }
  }
  return reach;
}

SD_HD inline Reach reach_of(const State& state) { return reach_of(state, segments_of(state)); }

/// What others hold before a snake gets there in `t` steps: cells that a foe reaches by then, or a mate earlier.
SD_HD inline CellSet claims_against(const Reach& reach, const int (&mates)[2], int first_foe, int t) {
  return reach.by[first_foe][t] | reach.by[first_foe + 1][t] | reach.by[first_foe + 2][t] |
         reach.by[mates[0]][t - 1] | reach.by[mates[1]][t - 1];
}

/// Where a move leads, up to the horizon.
struct Outlook {
  int room = 0;                          // cells that can be reached, ignoring other snakes' claims
  int territory = 0;                     // of these, those reached before anybody else
  int beans = 0;                         // in the territory
  int bean_distance = kHorizon + 1;      // steps to the nearest bean; horizon + 1 without one
  int own_bean_distance = kHorizon + 1;  // the same in the territory
  bool foe_may_enter = false;            // the move's cell, in the same step
  bool mate_may_enter = false;
};

/// A flood from one cell, recording the steps at which it reached a target.
struct Flood {
  CellSet reached;
  std::uint32_t met = 0;  // bit t: some target is reached within t steps

  SD_HD void spread_to(const CellSet& closed, const CellSet& targets, int t) {
    reached = reached | without(spread(reached), closed);
    met |= static_cast<std::uint32_t>(meet(reached, targets)) << t;
  }
  /// The first step at which a target was reached; kHorizon + 1 if none was.
  SD_HD int first() const { return base::lowest_bit(met | 1U << (kHorizon + 1)); }
};

/// For the four moves of a snake. A move back, or into a cell that is still taken in the next step, leads nowhere.
SD_HD_APART inline void look_ahead(const State& state, const Reach& reach, int snake, Outlook (&out)[4]) {
  const int team = snake / kTeamSize, foe = (1 - team) * kTeamSize, own = team * kTeamSize;
  const int mates[2] = {snake == own ? own + 1 : own, snake == own + 2 ? own + 1 : own + 2};
  const CellSet foes = reach.by[foe][1] | reach.by[foe + 1][1] | reach.by[foe + 2][1],
                team_mates = reach.by[mates[0]][1] | reach.by[mates[1]][1];
  CellSet closed[kHorizon + 1];
  SD_ROLLED for (int t = 2; t <= kHorizon; ++t) closed[t] =
      reach.blocked[t] | claims_against(reach, mates, foe, t);
  SD_ROLLED for (int d = 0; d < 4; ++d) {
    out[d] = Outlook{};
    const int cell = follow(state.head(snake), d);
    if (state.length(snake) == 0 || d == (state.direction(snake) ^ 1) || reach.blocked[1].contains(cell))
      continue;
    out[d].foe_may_enter = foes.contains(cell);
    out[d].mate_may_enter = team_mates.contains(cell);
    const CellSet start = only(cell);
    const std::uint32_t met = static_cast<std::uint32_t>(reach.beans.contains(cell)) << 1;
    Flood all{start, met}, owned{start, met};
    SD_ROLLED for (int t = 2; t <= kHorizon; ++t) {
      all.spread_to(reach.blocked[t], reach.beans, t);
      owned.spread_to(closed[t], reach.beans, t);
    }
    out[d].room = count(all.reached);
    out[d].territory = count(owned.reached);
    out[d].beans = count(owned.reached & reach.beans);
    out[d].bean_distance = all.first();
    out[d].own_bean_distance = owned.first();
  }
}

}  // namespace snake_ddp::game
