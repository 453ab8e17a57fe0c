#include "snake_ddp/learners/columns.hpp"

namespace snake_ddp::learners {

std::vector<replay::Column> columns_up_to(Column last, std::int64_t features) {
  std::vector<replay::Column> columns = {{"observation", {kTeam, features + 1}},
                                         {"action", {kTeam, kActions}},
                                         {"reward", {kTeam}},
                                         {"next_observation", {kTeam, features + 1}},
                                         {"discount", {kTeam}},
                                         {"next_moves", {kTeam, kActions}},
                                         {"back", {1}}};
  columns.resize(last + 1);
  return columns;
}

}  // namespace snake_ddp::learners
