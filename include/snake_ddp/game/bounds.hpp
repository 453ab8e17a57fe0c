// The range of each feature, for programs that must state it, such as a Python environment's observation space.
#pragma once

#include <vector>

#include "snake_ddp/game/observation.hpp"

namespace snake_ddp::game {

/// The least and the greatest value, by feature.
struct Bounds {
  std::vector<float> low, high;
};

/// Bounds of what `observe` writes for any board of a game that began with `reset`. There a team's return is the sum of
/// its snakes' lengths above 3. What `hide_far` leaves has the same bounds. They are not always reached.
/// Shapes  low, high [obs_size(kind)].
Bounds feature_bounds(ObsKind kind);

}  // namespace snake_ddp::game
