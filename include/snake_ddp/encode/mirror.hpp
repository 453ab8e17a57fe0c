// What a snake observes of a board that is mirrored from left to right.
#pragma once

#include "snake_ddp/base/mirror_image.hpp"
#include "snake_ddp/encode/obs_kind.hpp"

namespace snake_ddp::encode {

/// How features and moves change. With up as up, left and right are the board's; with the heading as up they are the
/// snake's, and the heading stays. What is equally near keeps the order of the board that is not mirrored.
/// Both are empty for kinds whose features name cells of the board.
base::Mirror mirror_of(ObsKind kind);

}  // namespace snake_ddp::encode
