// Where left and right are exchanged.
#pragma once

namespace snake_ddp::base {

/// A component of a mirrored vector: `sign` x component `of` of the vector.
struct MirrorImage {
  int of;
  float sign = 1.0F;
};

}  // namespace snake_ddp::base
