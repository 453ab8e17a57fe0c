// What averaging gradients costs among ranks on this machine.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "snake_ddp/bench/row.hpp"
#include "snake_ddp/dist/world.hpp"

namespace snake_ddp::bench {

/// Through shared memory and through Gloo: the calls of one update, compared with one plain Gloo all-reduce
/// of the same size in the same processes; then single calls of 1 kB to 10 MB, each compared with a call of
/// Gloo. Last, how many calls an update makes, compared with its optimizer steps.
/// Throws      as run_jobs.
std::vector<Row> measure_allreduce(double seconds, int rounds, int ranks, const std::string& config_file);

/// A rank of it.
nlohmann::json allreduce_job(const nlohmann::json& settings, const dist::World& world);

}  // namespace snake_ddp::bench
