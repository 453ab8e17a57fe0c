// Which snake can be where, and when: bodies free cells as their tails move on, heads spread over the free cells, and
// each cell belongs to the snake that gets there first.
#pragma once

#include "snake_ddp/game/cell_set.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

/// Steps looked ahead; two cells of an empty board are at most 15 apart.
inline constexpr int kHorizon = 10;

/// Assumes that no snake eats and that moving on frees a cell, so it is slightly optimistic.
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

/// One step of a snake's flood; `blocked`, and its flood up to the step before, must be there.
SD_HD inline void spread_head(Reach& reach, int snake, int t) {
  const CellSet& before = reach.by[snake][t - 1];
  reach.by[snake][t] = before | without(spread(before), reach.blocked[t]);
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
    SD_ROLLED for (int i = 0; i < kSnakes; ++i) spread_head(reach, i, t);
  }
  return reach;
}

SD_HD inline Reach reach_of(const State& state) { return reach_of(state, segments_of(state)); }

/// The others of a snake's game.
struct Others {
  int mates[2], first_foe;
};
SD_HD inline Others others_of(int snake) {
  const int team = snake / kTeamSize, own = team * kTeamSize;
  return {{snake == own ? own + 1 : own, snake == own + 2 ? own + 1 : own + 2}, (1 - team) * kTeamSize};
}

/// What others own when a snake arrives after `t` steps: cells that a foe reaches by then, or a mate earlier.
SD_HD inline CellSet claims_against(const Reach& reach, const Others& o, int t) {
  return reach.by[o.first_foe][t] | reach.by[o.first_foe + 1][t] | reach.by[o.first_foe + 2][t] |
         reach.by[o.mates[0]][t - 1] | reach.by[o.mates[1]][t - 1];
}

/// Cells that it may not enter: those that are blocked; and those that are blocked or owned by others.
SD_HD inline TwoCellSets closed_to(const Reach& reach, const Others& o, int t) {
  return TwoCellSets::of(reach.blocked[t], reach.blocked[t] | claims_against(reach, o, t));
}

/// Where a move leads, up to the horizon.
struct MoveFeatures {
  int room = 0;                          // cells that can be reached, ignoring other snakes' claims
  int territory = 0;                     // of these, those reached before any other snake
  int beans = 0;                         // in the territory
  int bean_distance = kHorizon + 1;      // steps to the nearest bean; horizon + 1 without one
  int own_bean_distance = kHorizon + 1;  // the same in the territory
  bool foe_may_enter = false;            // the move's cell, in the same step
  bool mate_may_enter = false;
};

/// Two floods from a move's cell: into all cells, and into those that no other snake owns. Each records the steps at which it
/// reached a bean.
struct Floods {
  TwoCellSets reached{};
  std::uint32_t met = 0, met_owned = 0;  // bit t: some bean is reached within t steps

  /// `closed`: closed_to at step t.
  SD_HD void spread_to(const TwoCellSets& closed, const TwoCellSets& beans, int t) {
    reached = reached | without(spread(reached), closed);
    const unsigned both = meet(reached, beans);
    met |= (both & 1U) << t;
    met_owned |= (both >> 1) << t;
  }
};

/// Starts the floods of the move in direction `d`, and writes to `out` which others may enter its cell. Returns false, with both as
/// they were, for a move back, or into a cell that is still taken in the next step: such a move leads nowhere.
SD_HD inline bool start(const State& state, const Reach& reach, const Others& o, int snake, int d,
                        MoveFeatures& out, Floods& floods) {
  const int cell = follow(state.head(snake), d);
  if (state.length(snake) == 0 || d == (state.direction(snake) ^ 1) || reach.blocked[1].contains(cell))
    return false;
  CellSet foes = reach.by[o.first_foe][1];
  for (int k = 1; k < kTeamSize; ++k) foes = foes | reach.by[o.first_foe + k][1];
  out.foe_may_enter = foes.contains(cell);
  out.mate_may_enter = (reach.by[o.mates[0]][1] | reach.by[o.mates[1]][1]).contains(cell);
  floods.reached = TwoCellSets::of(only(cell), only(cell));
  floods.met = floods.met_owned = static_cast<std::uint32_t>(reach.beans.contains(cell)) << 1;
  return true;
}

/// Writes to `out` what the floods reached at the horizon.
SD_HD inline void finish(const Reach& reach, const Floods& floods, MoveFeatures& out) {
  const CellSet owned = floods.reached.second();
  out.room = count(floods.reached.first());
  out.territory = count(owned);
  out.beans = count(owned & reach.beans);
  out.bean_distance = core::lowest_bit(floods.met | 1U << (kHorizon + 1));
  out.own_bean_distance = core::lowest_bit(floods.met_owned | 1U << (kHorizon + 1));
}

/// Where the move in direction `d` leads. `closed`: closed_to at a step from 2 on.
template <class Closed>
SD_HD inline MoveFeatures move_features_of(const State& state, const Reach& reach, const Others& o, int snake,
                                           int d, const Closed& closed) {
  MoveFeatures out;
  Floods floods;
  if (!start(state, reach, o, snake, d, out, floods)) return out;
  const TwoCellSets beans = TwoCellSets::of(reach.beans, reach.beans);
  SD_ROLLED for (int t = 2; t <= kHorizon; ++t) floods.spread_to(closed(t), beans, t);
  finish(reach, floods, out);
  return out;
}

/// For the four moves of a snake.
SD_HD_APART inline void look_ahead(const State& state, const Reach& reach, int snake,
                                   MoveFeatures (&out)[4]) {
  const Others others = others_of(snake);
  TwoCellSets closed[kHorizon + 1];
  SD_ROLLED for (int t = 2; t <= kHorizon; ++t) closed[t] = closed_to(reach, others, t);
#if defined(SD_AVX2_CELL_SETS) && defined(__AVX512F__)
  // One move's floods wait for their own results; three moves' floods together do not.
  Floods started[3];
  int direction[3], count = 0;
  for (int d = 0; d < 4; ++d) {
    out[d] = {};
    Floods floods;
    if (!start(state, reach, others, snake, d, out[d], floods)) continue;
    direction[count] = d;
    started[count++] = floods;
  }
  Floods a = started[0], b = started[1], c = started[2];
  const TwoCellSets beans = TwoCellSets::of(reach.beans, reach.beans);
  for (int t = 2; t <= kHorizon; ++t) {
    a.spread_to(closed[t], beans, t);
    b.spread_to(closed[t], beans, t);
    c.spread_to(closed[t], beans, t);
  }
  const Floods finished[] = {a, b, c};
  for (int k = 0; k < count; ++k) finish(reach, finished[k], out[direction[k]]);
#else
  SD_ROLLED for (int d = 0; d < 4; ++d) out[d] = move_features_of(
      state, reach, others, snake, d, [&](int t) -> const TwoCellSets& { return closed[t]; });
#endif
}

}  // namespace snake_ddp::game
