// How fast the game, the observations and the scripted opponents are on this machine.
#pragma once

#include <vector>

#include "snake_ddp/bench/row.hpp"

namespace snake_ddp::bench {

/// Each runs on the calling thread for about `seconds`.
std::vector<Row> measure_game(double seconds);
std::vector<Row> measure_encode(double seconds);
std::vector<Row> measure_opponents(double seconds);

}  // namespace snake_ddp::bench
