// How far a run has come: the loop's own counters, equal on all ranks but where said.
#pragma once

#include <cstdint>
#include <string>

#include "snake_ddp/nets/flat_parameters.hpp"

namespace snake_ddp::train {

struct Counters {
  std::int64_t steps = 0;
  std::int64_t updates = 0;
  double updates_due = 0;
  std::int64_t empty_at = 0;     // the step at which replay was empty last
  std::int64_t evaluations = 0;  // intervals behind it: of evaluation, comparison of weights, checkpoints,
  std::int64_t checks = 0;
  std::int64_t checkpoints = 0;
  std::int64_t judgements = 0;      // judgements of the league
  std::int64_t evaluation_due = 0;  // 1: a stop came before it, or in it
  std::int64_t judgement_due = 0;
  double best_win_rate = -1;
  std::int64_t saved = 0;  // intervals of saving weights; rank 0's own
  double seconds = 0;      // of training before this start; rank 0's own
};

/// As 0-dim tensors, for checkpoints. Owner: the caller.
nets::NamedTensors to_state(const Counters& counters);

/// Nothing is due where the state, being an older version's, does not say.
/// Throws  FileError that starts with `what` where a counter is missing or of another type.
Counters counters_from(const nets::NamedTensors& state, const std::string& what);

}  // namespace snake_ddp::train
