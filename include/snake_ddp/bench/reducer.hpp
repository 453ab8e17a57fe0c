// How much of a large gradient's average hides behind the backward pass.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "snake_ddp/bench/row.hpp"
#include "snake_ddp/dist/world.hpp"

namespace snake_ddp::bench {

/// A chain of layers with 50 MB of parameters, on ranks that talk through Gloo: a step (forward and backward) alone; the
/// average of its gradient alone, compared with a rank's processor time for it; both by dist::Reducer,
/// compared with the longer of the two; the share of the average's time that is hidden behind the step. Then
/// the same for a step that waits where this one computes, as for a device: the ranks' cores are free for
/// the average.
/// Throws      as run_jobs.
std::vector<Row> measure_reducer(double seconds, int rounds, int ranks, double bucket_mb);

/// A rank of it.
nlohmann::json reducer_job(const nlohmann::json& settings, const dist::World& world);

}  // namespace snake_ddp::bench
