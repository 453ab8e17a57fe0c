// What a snake observes of a board that is mirrored from left to right.
#pragma once

#include "snake_ddp/core/mirror_image.hpp"
#include "snake_ddp/game/obs_kind.hpp"

namespace snake_ddp::game {

/// How features and moves change. If up is the board's, so are left and right; if up is the heading, they are the
/// snake's, and the heading stays. Things that are equally near keep their order of the unmirrored board.
/// Both are empty for kinds whose features name cells of the board.
core::Mirror mirror_of(ObsKind kind);

}  // namespace snake_ddp::game
