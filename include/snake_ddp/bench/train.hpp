// How fast whole training runs are: real ones, with their files, in a folder that is removed afterwards.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "snake_ddp/bench/row.hpp"
#include "snake_ddp/dist/world.hpp"

namespace snake_ddp::bench {

/// train_one_rank: a run's time per update (play, store, sample, learn, log), compared with the update
/// alone, measured in turn in the same process. Then steps and updates of a run of `ranks` ranks on as many
/// cores, summed over the ranks, compared with those of one rank on one core; and those of as many
/// independent runs at once, which is the most that the machine can do. One thread per rank. Each round
/// measures all of them, beside `busy` processes that each keep a core busy; rows are medians.
/// Throws      UsageError for more ranks than cores; as run_jobs.
std::vector<Row> measure_train(double seconds, int rounds, int ranks, int busy,
                               const std::string& config_file);

/// A run and then its update alone, in turn.
nlohmann::json everything_job(const nlohmann::json& settings, const dist::World& world);
/// A run.
nlohmann::json run_job(const nlohmann::json& settings, const dist::World& world);

}  // namespace snake_ddp::bench
