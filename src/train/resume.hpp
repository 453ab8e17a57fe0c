// Continuing from a checkpoint.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dist/context.hpp"
#include "dist/shared_folder.hpp"
#include "train/checkpoints.hpp"
#include "train/origin.hpp"

namespace snake_ddp::train {

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
