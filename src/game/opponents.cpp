#include "snake_ddp/game/opponents.hpp"

#include <algorithm>

namespace snake_ddp::game {

std::optional<Opponent> try_opponent(std::string_view name) {
  const auto at = std::find_if(kOpponents.begin(), kOpponents.end(),
                               [&](const OpponentEntry& entry) { return entry.name == name; });
  return at == kOpponents.end() ? std::nullopt : std::optional(at->opponent);
}

std::string_view name(Opponent opponent) { return kOpponents[static_cast<std::size_t>(opponent)].name; }

std::vector<std::string> opponent_names() {
  std::vector<std::string> names;
  for (const OpponentEntry& entry : kOpponents) names.emplace_back(entry.name);
  return names;
}

}  // namespace snake_ddp::game
