#include "learners/columns.hpp"

namespace snake_ddp::learners {

std::vector<Column> columns_up_to(TransitionColumn last, std::int64_t features) {
  const std::vector<std::int64_t> shapes[kTransitionColumns] = {{kTeamSize, features + 1},
                                                                {kTeamSize, kActions},
                                                                {kTeamSize},
                                                                {kTeamSize, features + 1},
                                                                {kTeamSize},
                                                                {kTeamSize, kActions},
                                                                {1}};
  std::vector<Column> columns;
  for (std::int64_t c = 0; c <= last; ++c) columns.push_back({kColumnNames[c], shapes[c]});
  return columns;
}

}  // namespace snake_ddp::learners
