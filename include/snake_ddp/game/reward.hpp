// What a team is trained for: shaped rewards derived from the game's rewards.
#pragma once

#include <cmath>
#include <optional>
#include <string_view>

#include "snake_ddp/core/host_device.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

/// k2021  the reference: score, beans, distance to the nearest bean, deaths.
/// kV11   its later variant as it runs: living costs 50 a step and dying pays 0.1. For comparison only.
/// kV12   that variant as its documentation describes it: living pays 0.1, dying costs 50.
/// kScore the game's own reward.
enum class RewardRule { k2021, kV11, kV12, kScore };

/// "2021", "v1_1", "v1_2", "score".
std::optional<RewardRule> try_reward_rule(std::string_view name);

/// How the team is doing, by the running sums of game rewards: at the end 1 won, 2 lost, 0 drawn; before, 3 ahead, 4
/// behind, 0 level.
SD_HD inline int score_code(const State& after, int team) {
  const int lead = after.team_return(team) - after.team_return(1 - team);
  if (lead == 0) return 0;
  if (after.done()) return lead > 0 ? 1 : 2;
  return lead > 0 ? 3 : 4;
}

/// The shaped reward of one snake for the step that led to `after`.
/// `game_reward` is the snake's reward of that step, `score_code` the value of the function above for its team.
SD_HD inline float shaped_reward(RewardRule rule, const State& after, int snake, int game_reward,
                                 int score_code) {
  constexpr float kScore2021[5] = {0.0F, 50.0F, -25.0F, 10.0F, -5.0F};
  constexpr float kScoreV1[5] = {0.0F, 100.0F, -100.0F, 30.0F, -30.0F};
  switch (rule) {
    case RewardRule::k2021: {
      const float base = kScore2021[score_code];
      if (game_reward > 0) return base + 20.0F;
      const int row = row_of(after.head(snake)), column = column_of(after.head(snake));
      int nearest = after.bean_count() > 0 ? 1 << 20 : 0;  // no bean: no distance to punish
      for (int i = 0; i < after.bean_count(); ++i) {
        const int dy = row_of(after.bean(i)) - row, dx = column_of(after.bean(i)) - column;
        const int squared = dy * dy + dx * dx;
        nearest = squared < nearest ? squared : nearest;
      }
      return base - std::sqrt(static_cast<float>(nearest)) - (game_reward < 0 ? 10.0F : 0.0F);
    }
    case RewardRule::kV11:
      return kScoreV1[score_code] + (game_reward > 0 ? 30.0F : 0.0F) + (game_reward < 0 ? 0.1F : -50.0F);
    case RewardRule::kV12:
      return kScoreV1[score_code] + (game_reward > 0 ? 30.0F : 0.0F) + (game_reward < 0 ? -50.0F : 0.1F);
    case RewardRule::kScore:
      break;
  }
  return static_cast<float>(game_reward);
}

}  // namespace snake_ddp::game
