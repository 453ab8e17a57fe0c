// A limited view: removes what is farther from the head than its radius from the window's features.
#pragma once

#include "snake_ddp/game/observation.hpp"

namespace snake_ddp::game {

/// The least radius: that of the window itself.
inline constexpr int kLeastRadius = view::kReach;

/// Removes beans and snakes' heads more than `radius` rows or columns away from the features of one snake, as if they
/// were missing: dx, dy and the difference in length become 0, a place where nothing visible can be.
/// Shapes  row [obs_size(ObsKind::kWindow)], in place.
SD_HD inline void hide_far(int radius, float* row) {
  const auto hide = [&](int first, int count, int width) {
    for (float* at = row + first; count > 0; --count, at += width) {
      // Offsets are integers x 0.2.
      const float most = (static_cast<float>(radius) + 0.5F) * 0.2F;
      if (std::fabs(at[0]) <= most && std::fabs(at[1]) <= most) continue;
      for (int k = 0; k < width; ++k) at[k] = 0.0F;
    }
  };
  hide(view::kBeans, kBeans, 2);
  hide(view::kMates, kTeamSize - 1, 3);
  hide(view::kFoes, kTeamSize, 3);
}

}  // namespace snake_ddp::game
