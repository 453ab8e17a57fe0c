// What a checkpoint costs the training that continues meanwhile.
#pragma once

#include <vector>

#include "snake_ddp/bench/game.hpp"

namespace snake_ddp::bench {

/// For one rank with 100,000 transitions and 256 boards, in the system's folder for temporary files, which
/// it leaves as it was. The limit for the pause is 50 ms.
/// Throws  FileError.
std::vector<Row> measure_checkpoint(double seconds);

}  // namespace snake_ddp::bench
