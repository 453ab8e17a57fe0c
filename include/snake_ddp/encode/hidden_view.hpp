// A view that ends somewhere: what lies farther from the head than its radius is taken out of the window's features.
#pragma once

#include "snake_ddp/encode/observation.hpp"

namespace snake_ddp::encode {

/// The least radius: what the window itself shows.
inline constexpr int kLeastRadius = view::kReach;

/// Takes beans and snakes' heads more than `radius` rows or columns away out of the features of one snake, as if they
/// were not there: dx, dy and the difference in length become 0, where nothing that is seen can be.
/// Shapes  row [obs_size(ObsKind::kWindow)], in place.
SD_HD inline void hide_far(int radius, float* row) {
  const auto hide = [&](int first, int count, int width) {
    for (float* at = row + first; count > 0; --count, at += width) {
      // Offsets are whole numbers x 0.2.
      const float most = (static_cast<float>(radius) + 0.5F) * 0.2F;
      if (std::fabs(at[0]) <= most && std::fabs(at[1]) <= most) continue;
      for (int k = 0; k < width; ++k) at[k] = 0.0F;
    }
  };
  hide(view::kBeans, game::kBeans, 2);
  hide(view::kMates, game::kTeamSize - 1, 3);
  hide(view::kFoes, game::kTeamSize, 3);
}

}  // namespace snake_ddp::encode
