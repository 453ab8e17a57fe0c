// The territory heuristic. Included by opponents_inline.hpp.
#pragma once

#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/reach.hpp"

namespace snake_ddp::game::territory {

// Weights of the parts of a move's score; found by matches against the other scripted opponents.
inline constexpr int kOwnBean =
    9;                           // per step by which a bean that it reaches first is nearer than the horizon
inline constexpr int kBean = 2;  // the same for any bean
inline constexpr int kTerritory = 1;   // per cell that it reaches first
inline constexpr int kCramped = 40;    // subtracted, per cell of its length that the room ahead lacks
inline constexpr int kCaution = 42;    // subtracted, if a foe's head may come there too
inline constexpr int kHeadOnFoe = 45;  // and per point that this would cost more than it costs the foe
inline constexpr int kHeadOnMate =
    8;  // subtracted, per point, if the head of a mate that chooses later may come there
inline constexpr int kTail = 40;       // subtracted, for a tail's cell whose snake may eat and stay
inline constexpr int kTailPoint = 25;  // and for each point

/// The length of the longest foe whose head may be at `cell` in the next step.
SD_HD inline int foe_at(const game::State& state, const game::Reach& reach, int team, int cell) {
  const int first = (1 - team) * game::kTeamSize;
  int longest = 0;
  for (int i = first; i < first + game::kTeamSize; ++i)
    if (reach.by[i][1].contains(cell) && state.length(i) > longest) longest = state.length(i);
  return longest;
}

/// Does a segment leave `cell` in the next step, unless its snake eats (which it may)?
SD_HD inline bool tail_may_stay(const game::State& state, const game::Reach& reach, int cell) {
  const int owner = state.code(cell) - 2;
  return owner >= 0 && meet(reach.by[owner][1], reach.beans);
}

SD_HD_APART inline int score_of(const game::State& state, const game::Reach& reach, int snake, int cell,
                                const game::MoveFeatures& o, bool mate_may_come) {
  const int length = state.length(snake), points = length - game::kStartLength;
  int score = kOwnBean * (game::kHorizon + 1 - o.own_bean_distance) +
              kBean * (game::kHorizon + 1 - o.bean_distance) + kTerritory * o.territory;
  if (o.room < length) score -= kCramped * (length - o.room);
  if (o.foe_may_enter) {
    const int theirs = foe_at(state, reach, snake / game::kTeamSize, cell) - game::kStartLength;
    score -= kCaution + kHeadOnFoe * (points - theirs);
  }
  if (mate_may_come) score -= kHeadOnMate * (points + 1);
  if (tail_may_stay(state, reach, cell)) score -= kTail + kTailPoint * points;
  return score;
}

/// `look(i)` returns snake i's four moves, valid until the next call.
template <class Look>
SD_HD inline void choose(const game::State& state, const game::Reach& reach, int team, const Look& look,
                         game::Actions& out) {
  const int first = team * game::kTeamSize;
  game::CellSet chosen{};  // by the mates that chose before
  SD_ROLLED for (int i = first; i < first + game::kTeamSize; ++i) {
    const game::MoveFeatures* const move_features = look(i);
    int best = -1, best_score = 0;
    SD_ROLLED for (int d = 0; d < 4; ++d) {
      const int cell = game::follow(state.head(i), d);
      if (d == (state.direction(i) ^ 1) || move_features[d].room == 0 || chosen.contains(cell)) continue;
      bool mate_may_come = false;
      for (int mate = i + 1; mate < first + game::kTeamSize; ++mate)
        mate_may_come |= reach.by[mate][1].contains(cell);
      const int score = score_of(state, reach, i, cell, move_features[d], mate_may_come);
      if (best < 0 || score > best_score) {
        best = d;
        best_score = score;
      }
    }
    out.of[i] = static_cast<std::uint8_t>(best < 0 ? state.direction(i) : best);
    chosen.add(game::follow(state.head(i), out.of[i]));
  }
}

SD_HD_APART inline void act(const game::State& state, int team, game::Actions& out) {
  const game::Reach reach = game::reach_of(state);
  game::MoveFeatures move_features[4];
  const auto look = [&](int snake) {
    game::look_ahead(state, reach, snake, move_features);
    return static_cast<const game::MoveFeatures*>(move_features);
  };
  choose(state, reach, team, look, out);
}

}  // namespace snake_ddp::game::territory
