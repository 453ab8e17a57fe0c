// Continuing from a checkpoint.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dist/context.hpp"
#include "dist/shared_folder.hpp"
#include "dist/world.hpp"
#include "train/checkpoints.hpp"
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

/// What a start found.
struct Resumed {
  std::vector<std::string> lines;  // rank 0: what was restored and what changed
  std::string over;                // why the run is finished under these settings; empty: it goes on
};

/// Restores the newest complete checkpoint of the run, or the named one, into `state`. Damaged ones are reported, set
/// aside and skipped. A finished run is left as it is: one that has played all, at a vote of its ranks.
/// Collective  every rank calls it; the shared part is the same on all afterwards.
/// Throws      FileError if no checkpoint is complete, or a rank could not read one, or it belongs to another run;
///             then none is renamed. UsageError if a setting differs that must not.
Resumed resume_from(const Origin& origin, const dist::Access& access, const RunState& state,
                    const nlohmann::ordered_json& settings, std::int64_t votes_every,
                    dist::DistContext& context);

}  // namespace snake_ddp::train
