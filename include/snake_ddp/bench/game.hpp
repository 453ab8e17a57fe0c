// The benches that need no LibTorch.
#pragma once

#include <string>
#include <vector>

namespace snake_ddp::bench {

/// One line of what `bench` prints. `limit` is a bound to compare the value with, `ratio` how the value compares with it.
struct Row {
  std::string name;
  double value;
  std::string unit;
  double limit;
  double ratio;
};

/// How fast the game, the observations and the scripted opponents are on this machine. Each runs on the calling thread
/// for about `seconds`.
std::vector<Row> measure_game(double seconds);
std::vector<Row> measure_encode(double seconds);
std::vector<Row> measure_opponents(double seconds);

}  // namespace snake_ddp::bench
