// The moves behind opponents.hpp. Included at its end.
#pragma once

#include <cmath>

#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/territory_inline.hpp"

namespace snake_ddp::game {

namespace moves {

// Choices are minima over "score, then index", without branches: the best move is unpredictable for a
// branch predictor.

inline constexpr int kNever = 1 << 20;  // above every squared distance

SD_HD constexpr int smaller(int a, int b) { return b < a ? b : a; }

SD_HD inline int squared_distance(int a, int b) {
  const int dy = row_of(a) - row_of(b), dx = column_of(a) - column_of(b);
  return dy * dy + dx * dx;
}

/// The list index of the first nearest bean that is not in the bit set `taken`; -1 if there is none.
SD_HD inline int nearest_bean(const State& state, int head, int taken) {
  const int missing = (-1 << state.bean_count()) | taken;
  int best = kNever * 8;
  for (int b = 0; b < kBeans; ++b) {
    const int never = kNever * 8 * ((missing >> b) & 1);
    best = smaller(best, (squared_distance(head, state.beans[b]) * 8 + b) | never);
  }
  return best < kNever * 8 ? best % 8 : -1;
}

/// The outcomes of a snake's four moves: squared distances to the target (0 without one), and which are
/// blocked.
struct Moves {
  int cell[4];
  int distance[4];
  int blocked[4];  // 0 or 1
};

SD_HD inline Moves look(const State& state, int head, int target_bean) {
  const int target = state.beans[target_bean < 0 ? 0 : target_bean], any = target_bean < 0 ? 0 : 1;
  Moves o;
  for (int d = 0; d < 4; ++d) {
    o.cell[d] = follow(head, d);
    o.distance[d] = squared_distance(o.cell[d], target) * any;
    o.blocked[d] = state.code(o.cell[d]) > 1 ? 1 : 0;
  }
  return o;
}

/// The index of the first lowest score; scores are not negative and below 2^29.
SD_HD inline std::uint8_t lowest(const int (&score)[4]) {
  int best = score[0] * 4;
  for (int d = 1; d < 4; ++d) best = smaller(best, score[d] * 4 + d);
  return static_cast<std::uint8_t>(best % 4);
}

SD_HD inline std::uint8_t nearest(const Moves& o) { return lowest(o.distance); }

SD_HD inline std::uint8_t nearest_unblocked(const Moves& o) {
  int score[4];
  for (int d = 0; d < 4; ++d) score[d] = o.distance[d] * (1 - o.blocked[d]) + kNever * o.blocked[d];
  return lowest(score);
}

/// Level 3. The term for blocked neighbours is the same for all four moves and cannot decide. The distances
/// are square roots of integers below 443: two of them differ by exactly 5, or by at least 5e-5 more or less,
/// so whole units of 2^-20 keep the order and the ties.
SD_HD inline std::uint8_t nearest_with_penalty(const Moves& o) {
  constexpr double kUnits = 1 << 20;
  int score[4];
  for (int d = 0; d < 4; ++d)
    score[d] =
        static_cast<int>((std::sqrt(static_cast<double>(o.distance[d])) + 5.0 * o.blocked[d]) * kUnits);
  return lowest(score);
}

/// Evasion: the moves that begin a walk over two unblocked cells; each second cell counts for the walk that
/// reaches it first. Two different first moves reach the same second cell only around a corner.
SD_HD inline std::uint8_t nearest_with_a_way_on(const State& state, const Moves& o) {
  int score[4], ways = 0;
  for (int d = 0; d < 4; ++d) {
    int way_on = 0;
    for (int e = 0; e < 4; ++e) {
      if (e == (d ^ 1)) continue;  // back onto the head, which is blocked
      // Around a corner, the earlier first move e has already been there, if it was possible.
      const int seen = (e >> 1) != (d >> 1) && e < d ? 1 - o.blocked[e] : 0;
      way_on |= (1 - seen) & (state.code(follow(o.cell[d], e)) <= 1 ? 1 : 0);
    }
    way_on &= 1 - o.blocked[d];
    ways |= way_on;
    score[d] = o.distance[d] + kNever * (1 - way_on);
  }
  return ways != 0 ? lowest(score) : nearest(o);
}

}  // namespace moves

/// `act` of all but the territory heuristic.
SD_HD inline void act_by_sight(Opponent opponent, const State& state, int team, Actions& out,
                               std::uint64_t seed, std::uint64_t stream) {
  const int first = team * kTeamSize;
  if (opponent == Opponent::kLevel0) {
    const core::RandomBlock block =
        core::random_block(seed, stream, static_cast<std::uint32_t>(state.step()), core::Purpose::kOpponent);
    for (int i = 0; i < kTeamSize; ++i)
      out.of[first + i] = static_cast<std::uint8_t>(block.word[team] >> (30 - 2 * i) & 3U);
    return;
  }
  int taken = 0;
  SD_ROLLED for (int i = first; i < first + kTeamSize; ++i) {
    const int head = state.head(i);
    const int target = moves::nearest_bean(state, head, taken);
    const moves::Moves four = moves::look(state, head, target);
    switch (opponent) {
      case Opponent::kLevel1:
        out.of[i] = moves::nearest(four);
        break;
      case Opponent::kLevel2:
        out.of[i] = moves::nearest_unblocked(four);
        taken |= target < 0 ? 0 : 1 << target;
        break;
      case Opponent::kLevel3:
        out.of[i] = moves::nearest_with_penalty(four);
        break;
      // Level 4 scales the distance by a positive factor, adds a term that is the same for all moves, and
      // puts blocked moves after all others: the order is that of the unblocked distances.
      case Opponent::kLevel4:
        out.of[i] = moves::nearest_unblocked(four);
        break;
      case Opponent::kEvasion:
        out.of[i] = moves::nearest_with_a_way_on(state, four);
        break;
      case Opponent::kLevel0:
      case Opponent::kTerritory:
        break;  // not here
    }
  }
}

SD_HD inline void act(Opponent opponent, const State& state, int team, Actions& out, std::uint64_t seed,
                      std::uint64_t stream) {
  if (opponent == Opponent::kTerritory) return territory::act(state, team, out);
  act_by_sight(opponent, state, team, out, seed, stream);
}

}  // namespace snake_ddp::game
