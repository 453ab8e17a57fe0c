// How fast a learner's update is on this machine.
#pragma once

#include <vector>

#include "snake_ddp/app/bench_game.hpp"

namespace snake_ddp::app {

/// DDPG updates at hidden 256 for each batch size, one thread. `limit` is the time of the update's matrix
/// products alone, measured in the same process; `ratio` is value / limit.
std::vector<BenchRow> bench_update(double seconds, const std::vector<std::int64_t>& batch_sizes);

}  // namespace snake_ddp::app
