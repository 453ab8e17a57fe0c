// How fast a learner's update is on this machine.
#pragma once

#include <vector>

#include "snake_ddp/bench/game.hpp"

namespace snake_ddp::bench {

/// Two rows for each batch size, at hidden 256 on one thread. ddpg_update: `limit` is the time of the update's matrix
/// products alone. matrix_products: theirs, `limit` the time that LibTorch's library takes for the same ones.
std::vector<Row> measure_update(double seconds, const std::vector<std::int64_t>& batch_sizes);

}  // namespace snake_ddp::bench
