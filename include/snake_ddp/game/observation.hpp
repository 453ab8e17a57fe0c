// What a team observes of a board.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "snake_ddp/core/host_device.hpp"
#include "snake_ddp/game/obs_kind.hpp"
#include "snake_ddp/game/state.hpp"
#include "snake_ddp/game/view_inline.hpp"

namespace snake_ddp::game {

SD_HD constexpr int obs_size(ObsKind kind) {
  return kind == ObsKind::k26       ? 26
         : kind == ObsKind::k30     ? 30
         : kind == ObsKind::kWindow ? view::kFeatures
                                    : view::kAllFeatures;
}
inline constexpr int kMaxObsSize = view::kAllFeatures;

/// "26", "30", "window", "view", "ahead", by ObsKind.
inline constexpr std::string_view kObsKindNames[] = {"26", "30", "window", "view", "ahead"};
std::optional<ObsKind> try_obs_kind(std::string_view name);
std::string_view name(ObsKind kind);
/// The kind with that many features; the view, where two kinds have equally many.
std::optional<ObsKind> try_obs_kind(std::int64_t features);

/// As `up_of`, from the features that a snake observes.
/// Shapes  row [obs_size(kind)].
inline int up_in(ObsKind kind, const float* row) {
  if (kind != ObsKind::kAhead) return kUp;
  const float* heading = row + view::kHeading;
  return static_cast<int>(std::max_element(heading, heading + kMoves) - heading);
}

/// Writes the features of the team's three snakes.
/// Shapes   out [3, obs_size(kind)] float32, row-major; every element is written.
/// Follows  for 26 and 30 the feature lists of the reference, unscaled. Team 1 (B) sees the board as if it were team A: its
///          own snakes have codes 2..4, the opponents 5..7, and "the other snakes in index order" are those of
///          the relabelled board, so team mates come first. Missing beans are 0 0 (0 0 40 in the distance
///          features of the 30); an empty snake is at cell 0 with length 0.
///          The view is already near -1..1, and the same for all shifts of the board and orders of beans, team
///          mates and opponents. With kAhead, "up" in it is the snake's heading: all but the features that name the
///          heading also stay the same if the board is turned by 180 degrees.
SD_HD inline void observe(ObsKind kind, const State& state, int team, float* out);

}  // namespace snake_ddp::game

#include "snake_ddp/game/observation_inline.hpp"
