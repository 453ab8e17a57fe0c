// Boards in recorded JSON lines.
#pragma once

#include <nlohmann/json.hpp>

#include "snake_ddp/game/position.hpp"

namespace snake_ddp::tests {

/// The board of a line with `snakes`, `directions`, `beans` and `step`.
inline game::State recorded_board(const nlohmann::json& line) {
  game::Position p;
  line.at("snakes").get_to(p.snakes);
  line.at("directions").get_to(p.directions);
  line.at("beans").get_to(p.beans);
  line.at("step").get_to(p.step);
  // Since all begin with the same length, a snake's rewards sum up to what it has grown.
  for (std::size_t i = 0; i < game::kSnakes; ++i)
    p.returns[i / game::kTeamSize] += static_cast<int>(p.snakes[i].size()) - game::kStartLength;
  return game::make_state(p);
}

}  // namespace snake_ddp::tests
