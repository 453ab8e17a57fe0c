// The scripted opponent of each game, as a plain value that devices can read.
#pragma once

#include <cstdint>
#include <functional>

#include "snake_ddp/agents/mix.hpp"
#include "snake_ddp/agents/opponents.hpp"
#include "snake_ddp/base/host_device.hpp"
#include "snake_ddp/base/random.hpp"

namespace snake_ddp::agents {

struct OpponentPlan {
  static constexpr int kMost = static_cast<int>(kOpponents.size());
  int count = 0;
  bool is_drawn = false;        // by weight for each game; otherwise by the game's number
  std::uint64_t seed = 0;       // seed of the draws
  std::int64_t first[kMost]{};  // number of the first game against each, ascending
  double weight[kMost]{};
  Opponent opponent[kMost]{};

  /// The opponent of this game; games are numbered from 1.
  SD_HD Opponent of(std::int64_t game) const {
    int place = count - 1;
    if (!is_drawn) {
      while (place > 0 && game < first[place]) --place;
      return opponent[place];
    }
    double total = 0;
    for (int k = 0; k < count; ++k) total += weight[k];
    const base::RandomBlock block =
        base::random_block(seed, static_cast<std::uint64_t>(game), 0, base::Purpose::kRival);
    double left = static_cast<double>(base::unit_float(block.word[0])) * total;
    for (int k = 0; k < place; ++k) {
      left -= weight[k];
      if (left < 0) return opponent[k];
    }
    return opponent[place];
  }
};

/// The plan of a schedule: calls `opponent_at` for numbers from 1 to `last`; later games keep the last opponent. Each opponent's
/// games must be consecutive.
OpponentPlan plan_of_schedule(const std::function<Opponent(std::int64_t)>& opponent_at, std::int64_t last);

/// The plan of a mix: the same draws as `drawn`.
/// Throws  UsageError if the mix has an opponent that is not scripted.
OpponentPlan plan_of_mix(const Mix& mix, std::uint64_t seed);

}  // namespace snake_ddp::agents
