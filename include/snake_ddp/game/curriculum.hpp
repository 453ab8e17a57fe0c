// The opponent of each episode.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "snake_ddp/core/host_device.hpp"
#include "snake_ddp/game/opponents.hpp"

namespace snake_ddp::game {

struct Curriculum {
  enum class Kind { kCurriculum, kLinear, kExponential, kFixed };
  Kind kind = Kind::kCurriculum;
  Opponent fixed = Opponent::kLevel0;  // used for kFixed only

  bool operator==(const Curriculum&) const = default;
};

/// The possible LEVELs in "fixed:LEVEL": the number of a level, or the name of an opponent that is not a level.
std::vector<std::string> fixed_levels();

/// "curriculum", "linear", "exponential" or "fixed:LEVEL".
/// Throws  UsageError with the allowed forms.
Curriculum parse_curriculum(const std::string& text);

/// The level 0..4 by progress p = episode / max_episodes, episodes counted from 1: linear floor(4 p),
/// exponential floor(4 p^1.5), curriculum 0 below 0.10, 1 below 0.30, 2 below 0.60, 3 below 0.85, then 4. A
/// fixed level is itself; fixed evasion counts as 5.
/// Throws      Bug if max_episodes or episode is below 1.
int difficulty_at(const Curriculum& curriculum, std::int64_t episode, std::int64_t max_episodes);

/// The opponent of that difficulty; evasion from `evasion_start_episode` on, if enabled.
Opponent opponent_at(const Curriculum& curriculum, std::int64_t episode, std::int64_t max_episodes,
                     bool evasion_enabled, std::int64_t evasion_start_episode);

struct OpponentPlan {
  static constexpr int kMost = static_cast<int>(kOpponents.size());
  int count = 0;                // 0: there is no schedule
  std::int64_t first[kMost]{};  // number of the first game against each, ascending
  Opponent opponent[kMost]{};

  /// The opponent of this game; games are numbered from 1.
  [[nodiscard]] SD_HD Opponent of(std::int64_t game) const {
    int place = count - 1;
    while (place > 0 && game < first[place]) --place;
    return opponent[place];
  }
};

/// The plan of a schedule: calls `opponent_at` for numbers from 1 to `last`; later games keep the last opponent. Each opponent's
/// games must be consecutive.
OpponentPlan plan_of_schedule(const std::function<Opponent(std::int64_t)>& opponent_at, std::int64_t last);

}  // namespace snake_ddp::game
