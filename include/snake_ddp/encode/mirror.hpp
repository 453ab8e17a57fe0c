// What a snake observes of a board that is mirrored from left to right.
#pragma once

#include <vector>

#include "snake_ddp/base/mirror_image.hpp"
#include "snake_ddp/encode/obs_kind.hpp"

namespace snake_ddp::encode {

/// By feature. With up as up, left and right are the board's; with the heading as up they are the snake's, and the
/// heading stays. What is equally near keeps the order of the board that is not mirrored.
/// Throws  Bug for kinds whose features name cells of the board.
std::vector<base::MirrorImage> mirrored_features(ObsKind kind);

/// By move.
std::vector<base::MirrorImage> mirrored_moves();

}  // namespace snake_ddp::encode
