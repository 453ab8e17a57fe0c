// The counters of a buffer. Without tensors, for kernels.
#pragma once

#include <cstdint>

namespace snake_ddp::learners {

/// The slot of the next row, rows held, rows ever appended, draws so far: int64, in this order.
enum Counter : std::int64_t { kNext, kSize, kAppended, kDraw, kCounters };

}  // namespace snake_ddp::learners
