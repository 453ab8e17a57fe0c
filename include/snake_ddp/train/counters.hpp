// A run's progress: the loop's own counters, equal on all ranks unless noted.
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
  std::int64_t empty_at = 0;  // the last step at which replay was empty
  double best_win_rate = -1;
  double seconds = 0;  // of training before this start; rank 0's own
  /// Of periodic jobs, by their names in checkpoints: completed intervals of each (for saving weights, rank 0's own),
  /// and 1 if one is due.
  std::map<std::string, std::int64_t> jobs;
};

/// As 0-dim tensors, for checkpoints. Owner: the caller.
nets::NamedTensors to_state(const Counters& counters);

/// The state of an older version may lack jobs.
/// Throws  FileError that starts with `what` if a counter of the loop is missing, or one is not a number of its type.
Counters counters_from(const nets::NamedTensors& state, const std::string& what);

}  // namespace snake_ddp::train
