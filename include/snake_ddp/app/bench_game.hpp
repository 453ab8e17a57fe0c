// How fast the game, the observations and the scripted opponents are on this machine.
#pragma once

#include <string>
#include <vector>

namespace snake_ddp::app {

/// `limit` is a bound measured in the same process, `ratio` how much of it is reached (1 is all).
struct BenchRow {
  std::string name;
  double value;
  std::string unit;
  double limit;
  double ratio;
};

/// Each runs on the calling thread for about `seconds`.
std::vector<BenchRow> bench_game(double seconds);
std::vector<BenchRow> bench_encode(double seconds);
std::vector<BenchRow> bench_opponents(double seconds);

}  // namespace snake_ddp::app
