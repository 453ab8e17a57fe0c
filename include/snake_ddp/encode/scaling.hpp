// A fixed affine map that brings every feature near [-1, 1]. Because it is affine, it folds into a network's first
// layer, so an actor trained on scaled features is exported as one that takes raw features.
#pragma once

#include "snake_ddp/encode/observation.hpp"

namespace snake_ddp::encode {

/// x' = (x - shift) * scale, by feature.
struct Scaling {
  float shift[30];
  float scale[30];
};

/// Only the first obs_size(kind) entries are used.
/// Throws  Bug for the view, which is already scaled.
Scaling feature_scaling(ObsKind kind);

/// The identity map.
Scaling no_scaling();

}  // namespace snake_ddp::encode
