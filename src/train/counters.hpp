// A run's progress. A checkpoint has it once, from rank 0, and a resumed run gives it to every rank. So each number is equal on all
// ranks, or rank 0's alone is used: the table in counters.cpp says which, and why. What ranks count for themselves (games, epsilon,
// boards, replay) is in each rank's own part of a checkpoint.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nets/flat_parameters.hpp"
#include "rollout/collector.hpp"

namespace snake_ddp::train {

struct Counters {
  std::int64_t steps = 0;
  std::int64_t updates = 0;
  double updates_due = 0;
  std::int64_t empty_at = 0;     // the last step at which replay was empty
  std::int64_t board_steps = 0;  // of all ranks
  double best_win_rate = -1;
  double seconds = 0;  // of training before this start
  /// Of periodic jobs, by their names in checkpoints: completed intervals of each, and 1 if one is due.
  std::map<std::string, std::int64_t> jobs;
};

/// The numbers that are equal on all ranks, for comparing them.
std::string equal_text(const Counters& counters);

/// As 0-dim tensors, for checkpoints. Owner: the caller.
nets::NamedTensors to_state(const Counters& counters);

/// Throws  FileError that starts with `what` if a counter of the loop is missing, or one is not a number of its type.
Counters counters_from(const nets::NamedTensors& state, const std::string& what);

/// Every member is a sum, 64 bits wide: ranks add them in their regular vote.
struct Collected {
  std::int64_t episodes = 0;       // that ended
  std::int64_t episode_steps = 0;  // of those
  std::int64_t team_return = 0;    // of those, the game's own rewards
  std::int64_t rival_return = 0;   // sum of the other team's
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
