// Going on from a checkpoint.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/dist/world.hpp"
#include "snake_ddp/running/folder.hpp"
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

/// Whether --resume has the path of a folder.
bool names_a_folder(const std::string& resume);

/// The folder that --resume names: a run's, or one checkpoint's in it. Paths are absolute.
struct Place {
  std::string run;
  std::string checkpoint;  // its name in checkpoints/; empty: the newest whole one
};
Place place_of(const std::string& path);

/// Keys of a run's config.json that are no settings of this version.
std::vector<std::string> unknown_settings(const nlohmann::ordered_json& config);

/// What to go on with.
struct Origin {
  Place place;                     // no run: begin a new one
  std::string identity;            // rank 0: of the run; empty where it has none yet
  std::vector<std::string> lines;  // rank 0: to tell
};

/// The run to go on with, as --resume and the launch say.
/// Collective  the same place on all ranks.
/// Throws      FileError where a run that may be meant cannot be read, or holds damaged checkpoints only.
Origin origin_of(const TrainOptions& options, const Launch& launch, dist::DistContext& context);

/// Puts `state` where the newest whole checkpoint of the run was, or the one that is named. Damaged ones are told, set aside
/// and passed over.
/// Collective  every rank calls it; the shared part is the same on all afterwards.
/// Returns     on rank 0 lines that tell what was done and what changed, beside the origin's.
/// Throws      FileError if there is no whole checkpoint, or a rank could not read one, or it is another run's; then none
///             has another name. UsageError if a setting differs that must not.
std::vector<std::string> resume_from(const Origin& origin, const running::Access& access,
                                     const RunState& state, const nlohmann::ordered_json& settings,
                                     dist::DistContext& context);

}  // namespace snake_ddp::train
