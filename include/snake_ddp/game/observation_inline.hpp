// The features behind observation.hpp. Included at its end.
#pragma once

#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/view_inline.hpp"

namespace snake_ddp::game {

namespace features {

// Which bean is nearest changes from board to board, so branches on it would be mispredicted half of the
// time: the code below uses selects and minima instead.

/// A difference of coordinates on a circle: the side is subtracted if it exceeds half the side.
SD_HD constexpr int around(int difference, int side) {
  return difference - side * static_cast<int>(difference > side / 2) +
         side * static_cast<int>(difference < -(side / 2));
}

SD_HD constexpr int smaller(int a, int b) { return b < a ? b : a; }

inline constexpr int kLanes = 8;          // beans, then padding for vector instructions
inline constexpr int kFarSquared = 1600;  // a missing bean is at distance 40

/// The beans of a board, shared by all observers.
struct Beans {
  int row[kLanes], column[kLanes], there[kLanes];
  float at[2 * kBeans];  // row, column in list order, zeros if one is missing
};

SD_HD inline Beans beans_of(const State& state) {
  Beans beans;
  for (int b = 0; b < kLanes; ++b) {
    const int cell = b < kBeans ? state.beans[b] : 0;  // cell 0, row 0, column 0 if one is missing
    beans.row[b] = row_of(cell);
    beans.column[b] = column_of(cell);
    beans.there[b] = b < state.bean_count() ? 1 : 0;
  }
  for (int b = 0; b < kBeans; ++b) {
    beans.at[2 * b] = static_cast<float>(beans.row[b]);
    beans.at[2 * b + 1] = static_cast<float>(beans.column[b]);
  }
  return beans;
}

/// Writes dx, dy, distance of the nearest and of the second nearest bean; ties go to the first in list
/// order.
SD_HD inline void two_nearest(const Beans& beans, int row, int column, float* out) {
  int dx[kLanes], dy[kLanes], key[kLanes];  // key: the squared distance, then the place in the list
  for (int b = 0; b < kLanes; ++b) {
    dx[b] = around(beans.column[b] - column, kCols) * beans.there[b];
    dy[b] = around(beans.row[b] - row, kRows) * beans.there[b];
    const int squared = beans.there[b] != 0 ? dx[b] * dx[b] + dy[b] * dy[b] : kFarSquared;
    key[b] = squared * kLanes + b;
  }
  int first = key[0], second = kFarSquared * kLanes + kLanes;
  for (int b = 1; b < kBeans; ++b) {
    const int larger = key[b] < first ? first : key[b];
    first = smaller(first, key[b]);
    second = smaller(second, larger);
  }
  const int nearest[2] = {first, second};
  for (int k = 0; k < 2; ++k) {
    out[3 * k] = static_cast<float>(dx[nearest[k] % kLanes]);
    out[3 * k + 1] = static_cast<float>(dy[nearest[k] % kLanes]);
    const int squares = nearest[k] / kLanes;
    out[3 * k + 2] = std::sqrt(static_cast<float>(squares));
  }
}

}  // namespace features

/// `observe` for 26 and 30 features.
SD_HD_APART inline void observe_plain(ObsKind kind, const State& state, int team, float* out) {
  // A code as seen by team A and by team B.
  constexpr float kSeen[2][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 5, 6, 7, 2, 3, 4}};
  const int size = obs_size(kind), shift = team * kTeamSize;
  const features::Beans beans = features::beans_of(state);
  int row[kSnakes], column[kSnakes];  // by relabelled index
  for (int i = 0; i < kSnakes; ++i) {
    const int head = state.head(i + shift < kSnakes ? i + shift : i + shift - kSnakes);
    row[i] = row_of(head);
    column[i] = column_of(head);
  }
  // Distances between the team mates: of snakes 0 1, 0 2, 1 2.
  float nearness[kTeamSize];
  for (int pair = 0; pair < kTeamSize; ++pair) {
    const int a = pair / 2, b = pair == 0 ? 1 : 2;
    const int dx = features::around(column[a] - column[b], kCols),
              dy = features::around(row[a] - row[b], kRows);
    const float distance = std::sqrt(static_cast<float>(dx * dx + dy * dy)) + 1e-8F;
    nearness[pair] = 1.0F / (distance + 1.0F);
  }

  SD_ROLLED for (int i = 0; i < kTeamSize; ++i, out += size) {
    const int head = state.head(i + shift);
    out[0] = static_cast<float>(row[i]);
    out[1] = static_cast<float>(column[i]);
    for (int d = 0; d < 4; ++d) out[2 + d] = kSeen[team][state.code(follow(head, d))];

    if (kind == ObsKind::k26) {
      for (int k = 0; k < 2 * kBeans; ++k) out[6 + k] = beans.at[k];
      for (int k = 0; k < kSnakes - 1; ++k) {
        const int j = k + (k >= i ? 1 : 0);
        out[16 + 2 * k] = static_cast<float>(row[j]);
        out[17 + 2 * k] = static_cast<float>(column[j]);
      }
      continue;
    }

    features::two_nearest(beans, row[i], column[i], out + 6);
    for (int k = 0; k < 2; ++k) {
      const int j = k + (k >= i ? 1 : 0);  // the first two others: the team mates
      out[12 + k] = nearness[i + j - 1] * (static_cast<float>(state.length(j + shift)) / 3.0F);
      out[26 + 2 * k] = static_cast<float>(row[j]);
      out[27 + 2 * k] = static_cast<float>(column[j]);
    }
    for (int k = 0; k < 2 * kBeans; ++k) out[14 + k] = beans.at[k];
    out[24] = 0.0F;
    out[25] = 0.0F;
  }
}

SD_HD inline void observe(ObsKind kind, const State& state, int team, float* out) {
  if (is_view(kind)) {
    view::write(kind, state, team, out, obs_size(kind));
  } else {
    observe_plain(kind, state, team, out);
  }
}

}  // namespace snake_ddp::game
