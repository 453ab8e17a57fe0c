// Going on from a checkpoint.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/dist/world.hpp"
#include "snake_ddp/train/checkpoints.hpp"
#include "snake_ddp/train/options.hpp"

namespace snake_ddp::train {

/// What starts ranks anew, as rank 0 writes it into config.json: torchrun's agents and SLURM's job.
struct Launch {
  std::vector<std::string> agents;
  std::string job;
  int restarts = 0;  // the most that any agent counts
};

/// Collective  the same result on rank 0 as told by all; empty on the others.
Launch launch_of(const dist::World& world, dist::DistContext& context);

/// The folder of the run to go on with, as --resume and the launch say; empty for a new run.
/// Collective  the same on all ranks.
/// Throws      FileError where runs cannot be listed.
std::string run_to_resume(const TrainOptions& options, const Launch& launch, dist::DistContext& context);

/// Puts `state` where the newest whole checkpoint of `run` was. Damaged ones are told, set aside and passed over.
/// `sees_run`: this rank can read the folder.
/// Collective  every rank calls it; the shared part is the same on all afterwards.
/// Returns     on rank 0 lines that tell what was done and what changed.
/// Throws      FileError if there is no whole checkpoint; UsageError if a setting differs that must not.
std::vector<std::string> resume_from(const std::string& run, bool sees_run, const RunState& state,
                                     const nlohmann::ordered_json& settings, dist::DistContext& context);

}  // namespace snake_ddp::train
