#include "snake_ddp/game/reward.hpp"

#include <algorithm>
#include <iterator>

namespace snake_ddp::game {

namespace {
constexpr std::string_view kRuleNames[] = {"2021", "v1_1", "v1_2", "score"};  // by RewardRule
}

std::optional<RewardRule> try_reward_rule(std::string_view name) {
  const auto at = std::find(std::begin(kRuleNames), std::end(kRuleNames), name);
  if (at == std::end(kRuleNames)) return std::nullopt;
  return static_cast<RewardRule>(at - std::begin(kRuleNames));
}

}  // namespace snake_ddp::game
