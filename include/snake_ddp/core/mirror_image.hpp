// What becomes of a vector when left and right are exchanged.
#pragma once

#include <vector>

namespace snake_ddp::core {

/// A component of a mirrored vector: `sign` x component `of` of the vector.
struct MirrorImage {
  int of;
  float sign = 1.0F;
};

/// By component: how a network's inputs change, and how its outputs should. Both are their own inverse.
struct Mirror {
  std::vector<MirrorImage> inputs, outputs;
};

}  // namespace snake_ddp::core
