// What a team sees of a board.
#pragma once

#include <cmath>

#include "snake_ddp/base/host_device.hpp"
#include "snake_ddp/game/game.hpp"

namespace snake_ddp::encode {

/// The reference's 26 features (heads and beans, absolute) and its later variant's 30.
enum class ObsKind { k26, k30 };

SD_HD constexpr int obs_size(ObsKind kind) { return kind == ObsKind::k26 ? 26 : 30; }

/// Writes the features of the team's three snakes.
/// Shapes   out [3, obs_size(kind)] float32, row-major; every element is written.
/// Follows  the feature lists of the reference, unscaled. Team 1 (B) sees the board as if it were team A: its
/// own
///          snakes have codes 2..4, the opponents 5..7, and "the other snakes in index order" are those of
///          the relabelled board, so team mates come first. Missing beans are 0 0 (0 0 40 in the distance
///          features of the 30); an empty snake stands at cell 0 with length 0.
SD_HD inline void observe(ObsKind kind, const game::State& state, int team, float* out);

}  // namespace snake_ddp::encode

#include "snake_ddp/encode/observation_inline.hpp"
