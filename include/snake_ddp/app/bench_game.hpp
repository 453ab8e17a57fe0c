// How fast the game, the observations and the scripted opponents are on this machine.
#pragma once

#include <vector>

#include "snake_ddp/app/bench_row.hpp"

namespace snake_ddp::app {

/// Each runs on the calling thread for about `seconds`.
std::vector<BenchRow> bench_game(double seconds);
std::vector<BenchRow> bench_encode(double seconds);
std::vector<BenchRow> bench_opponents(double seconds);

}  // namespace snake_ddp::app
