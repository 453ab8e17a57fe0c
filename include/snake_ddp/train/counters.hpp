// A run's progress. A checkpoint has it once, from rank 0, and a resumed run gives it to every rank. So each number is equal on all
// ranks, or rank 0's alone is used: the table in counters.cpp says which, and why. What ranks count for themselves (games, epsilon,
// boards, replay) is in each rank's own part of a checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "snake_ddp/nets/flat_parameters.hpp"

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

}  // namespace snake_ddp::train
