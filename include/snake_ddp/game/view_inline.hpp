// The view: the surroundings of a snake's head, and the positions of beans and other snakes relative to it. docs/reference/formats.md
// lists the features.
#pragma once

#include "snake_ddp/core/chunk.hpp"
#include "snake_ddp/game/moves.hpp"
#include "snake_ddp/game/obs_kind.hpp"
#include "snake_ddp/game/reach.hpp"

#if defined(__AVX2__) && !defined(__CUDACC__) && !defined(SD_PLAIN_FORMS)  // the macro is for tests
#define SD_VIEW_IN_VECTORS 1
#include "snake_ddp/core/byte_vectors.hpp"
#else
#define SD_VIEW_IN_VECTORS 0
#endif

namespace snake_ddp::game::view {

inline constexpr int kReach = 3, kSide = 2 * kReach + 1, kWindow = kSide * kSide;

// Positions of the features.
inline constexpr int kBody = 0, kAge = kBody + kWindow, kBean = kAge + kWindow, kMate = kBean + kWindow,
                     kFoe = kMate + kWindow, kBeans = kFoe + kWindow, kMates = kBeans + 2 * game::kBeans,
                     kFoes = kMates + 3 * (game::kTeamSize - 1), kHeading = kFoes + 3 * game::kTeamSize,
                     kOwn = kHeading + 4, kFeatures = kOwn + 3;

/// Then these for each move (`write_move_features`): the greatest value of each; the least is 0.
inline constexpr float kMostMoveFeatures[] = {1.0F,
                                              static_cast<float>(game::kCells) * 0.01F,
                                              static_cast<float>(game::kCells) * 0.02F,
                                              1.0F,
                                              1.0F,
                                              1.0F,
                                              1.0F,
                                              1.0F};
inline constexpr int kMoveFeatures = sizeof kMostMoveFeatures / sizeof(float);
inline constexpr int kAllFeatures = kFeatures + game::kMoves * kMoveFeatures;
static_assert(kFeatures == 277 && kAllFeatures == 309);  // networks in files have these widths

/// A difference of coordinates on a circle, in (-side / 2, side / 2]: the same for all shifts of the board.
SD_HD constexpr int turned(int difference, int side) {
  const int wrapped = difference + side * static_cast<int>(difference < 0);
  return wrapped - side * static_cast<int>(wrapped > side / 2);
}

/// How far a cell is from a head: to the right and down where `up` is up.
struct Offset {
  int right, down;
};
SD_HD constexpr Offset offset_of(int up, int cell, int head) {
  const int rows = game::row_of(cell) - game::row_of(head),
            columns = game::column_of(cell) - game::column_of(head);
  const int sign = up == game::kUp || up == game::kRight ? 1 : -1;
  // Turned first, so that half of the way around has the same sign in every heading.
  if (up < game::kLeft) return {turned(sign * columns, game::kCols), turned(sign * rows, game::kRows)};
  return {turned(sign * rows, game::kRows), turned(-sign * columns, game::kCols)};
}

/// A position relative to a head as one number, ordered by distance and then by place, so that the order in
/// which things are listed does not matter.
SD_HD constexpr int key_of(Offset o) {
  return ((o.right * o.right + o.down * o.down) << 10) | ((o.down + 16) << 5) | (o.right + 16);
}
SD_HD constexpr int dx_of(int key) { return (key & 31) - 16; }
SD_HD constexpr int dy_of(int key) { return ((key >> 5) & 31) - 16; }
inline constexpr int kMissing = (1 << 20) | (16 << 5) | 16;  // after all others, at dx 0, dy 0

/// The board's cells with three more at each border, copies of those on the other side.
struct alignas(16) Surroundings {
  static constexpr int kWidth = 32;  // more than needed: rows are read eight cells at a time
  static constexpr int kHeight = game::kRows + 2 * kReach;
  std::uint8_t age[kHeight][kWidth];   // steps until a segment's cell is free again; 0 without a segment
  std::uint8_t kind[kHeight][kWidth];  // 1 bean, 2 a head of team A, 3 of team B
};

/// A plane of Surroundings. The board starts at (kReach, kReach).
using Plane = std::uint8_t[Surroundings::kHeight][Surroundings::kWidth];

/// Copies the cells of the opposite side beside a row of the board.
SD_HD inline void repeat_beside(Plane& cells, int row) {
  std::uint8_t* const r = cells[kReach + row];
  memcpy(r, r + game::kCols, kReach);
  memcpy(r + kReach + game::kCols, r + kReach, kReach);
}
/// Copies row `row` of the three above the board, and of the three below, once all rows have their side margins.
SD_HD inline void repeat_beyond(Plane& cells, int row) {
  using core::chunk;
  constexpr int kWidth = Surroundings::kWidth;
  chunk<kWidth>(cells[row]) = chunk<kWidth>(cells[row + game::kRows]);
  chunk<kWidth>(cells[kReach + game::kRows + row]) = chunk<kWidth>(cells[kReach + row]);
}
SD_HD inline void repeat_borders(Plane& cells) {
  for (int r = 0; r < game::kRows; ++r) repeat_beside(cells, r);
  for (int r = 0; r < kReach; ++r) repeat_beyond(cells, r);
}

/// A cell's offset in a plane from the board's first cell.
SD_HD constexpr int place(int cell) {
  return game::row_of(cell) * Surroundings::kWidth + game::column_of(cell);
}

SD_HD_APART inline Surroundings surroundings_of(const game::State& state, const game::Segments& segments) {
  Surroundings s{};
  std::uint8_t* age = s.age[kReach] + kReach;
  std::uint8_t* kind = s.kind[kReach] + kReach;
  for (int k = 0; k < segments.count; ++k) age[place(segments.at[k].cell)] = segments.at[k].age;
  for (int i = 0; i < game::kSnakes; ++i) {
    if (state.lengths[i] > 0) kind[place(state.heads[i])] = i < game::kTeamSize ? 2 : 3;
  }
  for (int b = 0; b < state.bean_count(); ++b) kind[place(state.bean(b))] = 1;
  repeat_borders(s.age);
  repeat_borders(s.kind);
  return s;
}

/// Sorts keys in ascending order.
template <int kCount>
SD_HD inline void sort(int (&key)[kCount]) {
  for (int i = 1; i < kCount; ++i) {
    for (int j = i; j > 0; --j) {
      const int low = key[j] < key[j - 1] ? key[j] : key[j - 1],
                high = key[j] < key[j - 1] ? key[j - 1] : key[j];
      key[j - 1] = low;
      key[j] = high;
    }
  }
}

/// dx, dy and the difference in length of some snakes, by distance.
template <int kCount>
SD_HD inline void write_snakes(const game::State& state, int snake, int up, const int (&others)[kCount],
                               float* out) {
  int key[kCount];
  for (int k = 0; k < kCount; ++k) {
    key[k] = key_of(offset_of(up, state.head(others[k]), state.head(snake))) << 8 | state.length(others[k]);
  }
  sort(key);
  for (int k = 0; k < kCount; ++k) {
    out[3 * k] = static_cast<float>(dx_of(key[k] >> 8)) * 0.2F;
    out[3 * k + 1] = static_cast<float>(dy_of(key[k] >> 8)) * 0.2F;
    out[3 * k + 2] = static_cast<float>((key[k] & 255) - state.length(snake)) * 0.1F;
  }
}

/// From a cell of a plane to the one at its right and the one below it where `up` is up.
struct Strides {
  int right, down;
};
SD_HD constexpr Strides strides_of(int up) {
  constexpr int kRow = Surroundings::kWidth;
  return up == game::kUp     ? Strides{1, kRow}
         : up == game::kDown ? Strides{-1, -kRow}
         : up == game::kLeft ? Strides{-kRow, 1}
                             : Strides{kRow, -1};
}

#if SD_VIEW_IN_VECTORS

/// A window's cells, row by row where `up` is up, and room for whole vectors.
struct Window {
  alignas(64) std::uint8_t cell[64];
};

/// The window of a plane whose first cell is `*from`.
inline Window window_of(const std::uint8_t* from, int up) {
  // Rows of the plane, which are the window's rows or columns, as words of eight cells of which seven count.
  const Strides to_next = strides_of(up);
  const bool turned = up >= game::kLeft, backwards = (turned ? to_next.down : to_next.right) < 0;
  const int next = turned ? to_next.right : to_next.down;
  from -= backwards ? kSide - 1 : 0;
  std::uint64_t word[8] = {};
  for (int i = 0; i < kSide; ++i, from += next) {
    memcpy(&word[i], from, sizeof word[i]);
    const std::uint64_t swapped = __builtin_bswap64(word[i]) >> 8;
    word[i] = backwards ? swapped : word[i];
  }
  if (turned) core::transpose_bytes(word);
  Window window{};
  for (int i = 0; i < kSide; ++i) memcpy(window.cell + i * kSide, &word[i], sizeof word[i]);
  return window;
}

/// A window's features. `ages`, `kinds`: its first cell. Whole vectors: each plane's last one writes into the next plane,
/// or into the features after the window, which are written later.
inline void write_window(const std::uint8_t* ages, const std::uint8_t* kinds, int up, std::uint8_t mate,
                         std::uint8_t foe, float* out) {
  constexpr int kLanes = core::kLanes, kVectors = (kWindow + kLanes - 1) / kLanes;
  static_assert(kVectors * kLanes <= static_cast<int>(sizeof(Window)) &&
                kFoe + kVectors * kLanes <= kFeatures);
  const Window age_of = window_of(ages, up), kind_of = window_of(kinds, up);
  core::IntVector age[kVectors], kind[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    age[i] = core::widened(age_of.cell + i * kLanes);
    kind[i] = core::widened(kind_of.cell + i * kLanes);
  }
  const auto write = [&](int plane, const auto& feature) {
    for (int i = 0; i < kVectors; ++i) core::store(out + plane + i * kLanes, feature(i));
  };
  const core::Vector zero{}, one = zero + 1.0F;
  static_assert(kBody < kAge && kAge < kBean && kBean < kMate && kMate < kFoe);
  write(kBody, [&](int i) { return age[i] != 0 ? one : zero; });
  write(kAge, [&](int i) { return __builtin_convertvector(age[i], core::Vector) * 0.1F; });
  write(kBean, [&](int i) { return kind[i] == 1 ? one : zero; });
  write(kMate, [&](int i) { return kind[i] == mate ? one : zero; });
  write(kFoe, [&](int i) { return kind[i] == foe ? one : zero; });
}

#else

SD_HD inline void write_window(const std::uint8_t* ages, const std::uint8_t* kinds, int up, std::uint8_t mate,
                               std::uint8_t foe, float* out) {
  const Strides to_next = strides_of(up);
  SD_ROLLED for (int r = 0; r < kSide; ++r, out += kSide) {
    for (int k = 0; k < kSide; ++k) {
      const int at = r * to_next.down + k * to_next.right;
      const int age = ages[at], kind = kinds[at];
      out[kBody + k] = age != 0 ? 1.0F : 0.0F;
      out[kAge + k] = static_cast<float>(age) * 0.1F;
      out[kBean + k] = kind == 1 ? 1.0F : 0.0F;
      out[kMate + k] = kind == mate ? 1.0F : 0.0F;
      out[kFoe + k] = kind == foe ? 1.0F : 0.0F;
    }
  }
}

#endif

/// The features of one snake of `team`, with `up` up.
SD_HD_APART inline void write_one(const game::State& state, const Surroundings& around, int team, int snake,
                                  int up, float* out) {
  const int row = game::row_of(state.head(snake)), column = game::column_of(state.head(snake));
  const std::uint8_t mate = team == 0 ? 2 : 3, foe = team == 0 ? 3 : 2;
  const Strides to_next = strides_of(up);
  const int corner =
      (row + kReach) * Surroundings::kWidth + column + kReach - kReach * (to_next.right + to_next.down);
  write_window(around.age[0] + corner, around.kind[0] + corner, up, mate, foe, out);
  out[kMate + kWindow / 2] = 0.0F;  // its own head

  int beans[game::kBeans];
  for (int b = 0; b < game::kBeans; ++b) {
    const int key = key_of(offset_of(up, state.beans[b], state.head(snake)));
    beans[b] = b < state.bean_count() ? key : kMissing;
  }
  sort(beans);
  for (int b = 0; b < game::kBeans; ++b) {
    out[kBeans + 2 * b] = static_cast<float>(dx_of(beans[b])) * 0.2F;
    out[kBeans + 2 * b + 1] = static_cast<float>(dy_of(beans[b])) * 0.2F;
  }

  const int first_own = team * game::kTeamSize, first_foe = game::kTeamSize - first_own;
  const int place = snake - first_own;
  write_snakes<2>(state, snake, up, {first_own + (place == 0 ? 1 : 0), first_own + (place == 2 ? 1 : 2)},
                  out + kMates);
  write_snakes<3>(state, snake, up, {first_foe, first_foe + 1, first_foe + 2}, out + kFoes);

  for (int d = 0; d < 4; ++d) out[kHeading + d] = state.direction(snake) == d ? 1.0F : 0.0F;
  out[kOwn] = static_cast<float>(state.length(snake)) * 0.1F;
  out[kOwn + 1] = static_cast<float>(state.step()) * 0.005F;
  out[kOwn + 2] = static_cast<float>(state.team_return(team) - state.team_return(1 - team)) * 0.1F;
}

/// Where a move leads; `open`: whether the mask allows it.
SD_HD inline void write_move_features(const game::MoveFeatures& o, bool open, float* out) {
  const auto nearness = [](int distance) {
    return static_cast<float>(game::kHorizon + 1 - distance) / static_cast<float>(game::kHorizon + 1);
  };
  out[0] = open ? 1.0F : 0.0F;
  out[1] = static_cast<float>(o.room) * 0.01F;
  out[2] = static_cast<float>(o.territory) * 0.02F;
  out[3] = static_cast<float>(o.beans) * 0.2F;
  out[4] = nearness(o.bean_distance);
  out[5] = nearness(o.own_bean_distance);
  out[6] = o.foe_may_enter ? 1.0F : 0.0F;
  out[7] = o.mate_may_enter ? 1.0F : 0.0F;
}

/// Where each of the four moves of a snake leads, with `up` up.
SD_HD_APART inline void write_moves(const game::State& state, const game::Reach& reach, int snake, int up,
                                    float* out) {
  game::MoveFeatures move_features[4];
  game::look_ahead(state, reach, snake, move_features);
  const unsigned open = open_moves(state, snake);
  for (int d = 0; d < 4; ++d)
    write_move_features(move_features[d], (open >> d & 1U) != 0, out + move_of(up, d) * kMoveFeatures);
}

/// The features of snakes `first` to `last` - 1, each as its own team sees them, rows `stride` floats apart.
SD_HD_APART inline void write_snakes(ObsKind kind, const game::State& state, int first, int last, float* out,
                                     int stride) {
  const game::Segments segments = game::segments_of(state);
  const Surroundings around = surroundings_of(state, segments);
  SD_ROLLED for (int i = first; i < last; ++i)
      write_one(state, around, i / game::kTeamSize, i, up_of(kind, state, i), out + (i - first) * stride);
  if (!has_move_features(kind)) return;
  const game::Reach reach = game::reach_of(state, segments);
  SD_ROLLED for (int i = first; i < last; ++i)
      write_moves(state, reach, i, up_of(kind, state, i), out + (i - first) * stride + kFeatures);
}

/// The features of the team's three snakes.
SD_HD inline void write(ObsKind kind, const game::State& state, int team, float* out, int stride) {
  write_snakes(kind, state, team * game::kTeamSize, (team + 1) * game::kTeamSize, out, stride);
}

}  // namespace snake_ddp::game::view
