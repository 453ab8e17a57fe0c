// What a rank costs the machine: its memory, and its time to start.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "snake_ddp/bench/row.hpp"
#include "snake_ddp/dist/world.hpp"

namespace snake_ddp::bench {

/// memory_of_a_rank: resident memory of rank 0 with a full replay, less that of a process that loaded LibTorch and made
/// one product, less the replay's payload; the limit is 300 MiB. memory_of_libtorch: that process, compared
/// with the whole rank. memory_of_replay: what the run added since its first step, compared with replay's
/// payload.
/// Throws      as run_jobs.
std::vector<Row> measure_memory(int rounds, int ranks, const std::string& config_file);

/// start_to_first_update: from starting the program to the end of rank 0's first update, the files being in the
/// system's cache; the limit is 3 s. start_of_libtorch: of this, until the program's own code begins.
/// Throws      as run_jobs.
std::vector<Row> measure_start(int rounds, int ranks, const std::string& config_file);

/// LibTorch and one product.
nlohmann::json bare_job(const nlohmann::json& settings, const dist::World& world);
/// A run that fills its replay.
nlohmann::json memory_job(const nlohmann::json& settings, const dist::World& world);
/// A run of one episode.
nlohmann::json start_job(const nlohmann::json& settings, const dist::World& world);

}  // namespace snake_ddp::bench
