// Batches without games, for measurements and tests.
#pragma once

#include <cstdint>
#include <vector>

#include "snake_ddp/replay/buffer.hpp"

namespace snake_ddp::replay {

/// Observations in [-1, 1) with their constant 1, everything else in [0, 1). Draws from ATen's generator of that device.
Batch random_batch(const std::vector<Column>& columns, std::int64_t size, at::Device device = at::kCPU);

}  // namespace snake_ddp::replay
