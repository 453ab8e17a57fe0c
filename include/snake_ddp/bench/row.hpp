// One line of what `bench` prints.
#pragma once

#include <string>

namespace snake_ddp::bench {

/// `limit` is a bound to compare the value with, `ratio` how the value compares with it.
struct Row {
  std::string name;
  double value;
  std::string unit;
  double limit;
  double ratio;
};

}  // namespace snake_ddp::bench
