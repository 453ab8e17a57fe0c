// The features behind observation.hpp. Included by it, at its end.
#pragma once

#include "snake_ddp/encode/observation.hpp"

namespace snake_ddp::encode {

namespace features {

/// A difference of coordinates on a circle: at most half the side stays as it is, a larger one has the side
/// taken off.
SD_HD constexpr int around(int difference, int side) {
  if (difference > side / 2) return difference - side;
  if (difference < -(side / 2)) return difference + side;
  return difference;
}

}  // namespace features

SD_HD inline void observe(ObsKind kind, const game::State& state, int team, float* out) {
  using game::column_of;
  using game::kBeans;
  using game::kCols;
  using game::kRows;
  using game::kSnakes;
  using game::kTeamSize;
  using game::row_of;

  const int size = obs_size(kind);
  float bean_at[2 * kBeans] = {};
  int bean_row[kBeans], bean_column[kBeans];
  const int n_beans = state.bean_count();
  for (int b = 0; b < n_beans; ++b) {
    bean_row[b] = row_of(state.bean(b));
    bean_column[b] = column_of(state.bean(b));
    bean_at[2 * b] = static_cast<float>(bean_row[b]);
    bean_at[2 * b + 1] = static_cast<float>(bean_column[b]);
  }
  int row[kSnakes], column[kSnakes];  // by relabelled index
  const int shift = team * kTeamSize;
  for (int i = 0; i < kSnakes; ++i) {
    const int snake = i + shift < kSnakes ? i + shift : i + shift - kSnakes;
    row[i] = row_of(state.head(snake));
    column[i] = column_of(state.head(snake));
  }

  for (int i = 0; i < kTeamSize; ++i, out += size) {
    const int head = state.head(i + shift);
    out[0] = static_cast<float>(row[i]);
    out[1] = static_cast<float>(column[i]);
    for (int d = 0; d < 4; ++d) {
      int code = state.code(game::follow(head, d));
      if (team == 1 && code >= 2) code = code < 2 + kTeamSize ? code + kTeamSize : code - kTeamSize;
      out[2 + d] = static_cast<float>(code);
    }

    if (kind == ObsKind::k26) {
      for (int k = 0; k < 2 * kBeans; ++k) out[6 + k] = bean_at[k];
      float* other_head = out + 16;
      for (int j = 0; j < kSnakes; ++j) {
        if (j == i) continue;
        *other_head++ = static_cast<float>(row[j]);
        *other_head++ = static_cast<float>(column[j]);
      }
      continue;
    }

    // The nearest and the second nearest bean; the first in list order where they tie.
    constexpr int kFar = 1600;  // 40 squared, the distance of a missing bean
    int near_dx[2] = {0, 0}, near_dy[2] = {0, 0}, near_squared[2] = {kFar, kFar};
    for (int b = 0; b < n_beans; ++b) {
      const int dx = features::around(bean_column[b] - column[i], kCols);
      const int dy = features::around(bean_row[b] - row[i], kRows);
      const int squared = dx * dx + dy * dy;
      if (squared < near_squared[0]) {
        near_dx[1] = near_dx[0];
        near_dy[1] = near_dy[0];
        near_squared[1] = near_squared[0];
        near_dx[0] = dx;
        near_dy[0] = dy;
        near_squared[0] = squared;
      } else if (squared < near_squared[1]) {
        near_dx[1] = dx;
        near_dy[1] = dy;
        near_squared[1] = squared;
      }
    }
    for (int k = 0; k < 2; ++k) {
      out[6 + 3 * k] = static_cast<float>(near_dx[k]);
      out[7 + 3 * k] = static_cast<float>(near_dy[k]);
      out[8 + 3 * k] = std::sqrt(static_cast<float>(near_squared[k]));
    }

    for (int k = 0; k < 2; ++k) {
      const int j = k + (k >= i ? 1 : 0);  // the first two others: the team mates
      const int dx = features::around(column[j] - column[i], kCols),
                dy = features::around(row[j] - row[i], kRows);
      const float distance = std::sqrt(static_cast<float>(dx * dx + dy * dy)) + 1e-8F;
      out[12 + k] = (1.0F / (distance + 1.0F)) * (static_cast<float>(state.length(j + shift)) / 3.0F);
      out[26 + 2 * k] = static_cast<float>(row[j]);
      out[27 + 2 * k] = static_cast<float>(column[j]);
    }
    for (int k = 0; k < 2 * kBeans; ++k) out[14 + k] = bean_at[k];
    out[24] = 0.0F;
    out[25] = 0.0F;
  }
}

}  // namespace snake_ddp::encode
