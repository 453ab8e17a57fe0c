// How fast a team searches on one core.
#pragma once

#include <vector>

#include "snake_ddp/bench/row.hpp"

namespace snake_ddp::bench {

/// search_evaluations: team evaluations (a team's view and its three rows through a network of the champion's shape) per
/// second; `limit` is what encoding and the products alone would allow, each measured by itself on the same boards. Then team
/// moves per second by search, `limit` being what their evaluations alone would allow.
std::vector<Row> measure_search(double seconds);

}  // namespace snake_ddp::bench
