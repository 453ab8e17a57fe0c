#include "snake_ddp/agents/opponents.hpp"

#include <algorithm>
#include <iterator>

namespace snake_ddp::agents {

namespace {
constexpr std::string_view kNames[] = {"level0", "level1",  "level2",   "level3",
                                       "level4", "evasion", "territory"};  // by Opponent
}

std::optional<Opponent> try_opponent(std::string_view name) {
  const auto at = std::find(std::begin(kNames), std::end(kNames), name);
  if (at == std::end(kNames)) return std::nullopt;
  return static_cast<Opponent>(at - std::begin(kNames));
}

std::string_view name(Opponent opponent) { return kNames[static_cast<int>(opponent)]; }

}  // namespace snake_ddp::agents
