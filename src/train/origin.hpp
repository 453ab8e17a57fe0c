// Which run a start continues.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dist/context.hpp"
#include "dist/world.hpp"
#include "train/options.hpp"

namespace snake_ddp::train {

/// What restarts ranks, torchrun's agents and SLURM's job, as rank 0 writes it into config.json.
struct Launch {
  std::vector<std::string> agents;
  std::string job;
  int restarts = 0;  // the highest count of any agent
};

/// Collective  the ranks' data combined on rank 0; empty on the others.
Launch launch_of(const dist::World& world, dist::DistContext& context);

/// Whether --resume has a folder's path.
bool names_a_folder(const std::string& resume);

/// The folder that --resume names: a run's, or one of its checkpoints. Paths are absolute.
struct RunLocation {
  std::string run;
  std::string checkpoint;  // its name in checkpoints/; empty: the newest complete one
};
RunLocation place_of(const std::string& path);

/// Keys of a run's config.json that are not settings of this version.
std::vector<std::string> unknown_settings(const nlohmann::ordered_json& config);

/// What this start continues.
struct Origin {
  RunLocation place;               // no run: begin a new one
  std::string identity;            // rank 0: of the run; empty if it has none yet
  std::vector<std::string> lines;  // rank 0: to report
};

/// The run to continue, chosen by --resume and the launch.
/// Collective  the same place on all ranks.
/// Throws      FileError if a run that may be the one cannot be read, or has only damaged checkpoints.
Origin origin_of(const TrainOptions& options, const Launch& launch, dist::DistContext& context);

/// Why a run without a complete checkpoint cannot be resumed, and how it could. `reasons`: of those just tried.
std::string nothing_whole(const std::string& run, const std::vector<std::string>& reasons,
                          const std::vector<std::string>& set_aside);

}  // namespace snake_ddp::train
