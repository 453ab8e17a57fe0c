// How fast whole training runs are: real ones, with their files, in a folder that is removed afterwards.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "snake_ddp/bench/row.hpp"
#include "snake_ddp/dist/world.hpp"

namespace snake_ddp::bench {

/// train_one_rank: time of a run for each update (play, store, sample, learn, log), held against the update alone,
/// measured in the same process in turn. Then steps and updates of a run of `ranks` ranks on as many cores, summed over
/// the ranks, against those of one rank on one core; and those of as many runs at once that do not talk to each other,
/// which is what the machine can give. One thread a rank. Each round measures all of them, beside as many `busy` processes
/// that keep a core busy each; rows are medians.
/// Throws      UsageError for more ranks than cores; as run_jobs.
std::vector<Row> measure_train(double seconds, int rounds, int ranks, int busy,
                               const std::string& config_file);

/// A run and then its update alone, in turn.
nlohmann::json everything_job(const nlohmann::json& settings, const dist::World& world);
/// A run.
nlohmann::json run_job(const nlohmann::json& settings, const dist::World& world);

}  // namespace snake_ddp::bench
