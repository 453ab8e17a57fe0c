// The scripted opponent of each game of a schedule, as a plain value that devices can read.
#pragma once

#include <cstdint>
#include <functional>

#include "snake_ddp/agents/opponents.hpp"
#include "snake_ddp/base/host_device.hpp"

namespace snake_ddp::agents {

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

}  // namespace snake_ddp::agents
