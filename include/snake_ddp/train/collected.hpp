// What a rank has played since it started: sums, so that those of all ranks can be added.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "snake_ddp/rollout/collector.hpp"

namespace snake_ddp::train {

/// Every member is a sum, 64 bits wide: ranks add them in their regular vote.
struct Collected {
  std::int64_t episodes = 0;       // that ended
  std::int64_t episode_steps = 0;  // of those
  std::int64_t team_return = 0;    // of those, the game's own rewards
  std::int64_t rival_return = 0;   // likewise, the other team's
  std::int64_t wins = 0;           // of those
  std::int64_t env_steps = 0;
  std::int64_t transitions = 0;  // given to replay
  std::int64_t play_us = 0;      // spent playing

  void add(const std::vector<rollout::Episode>& ended, std::chrono::steady_clock::duration playing) {
    for (const rollout::Episode& e : ended) {
      ++episodes;
      episode_steps += e.steps;
      team_return += e.team_return[0];
      rival_return += e.team_return[1];
      wins += e.team_return[0] > e.team_return[1] ? 1 : 0;
    }
    play_us += std::chrono::duration_cast<std::chrono::microseconds>(playing).count();
  }
};

}  // namespace snake_ddp::train
