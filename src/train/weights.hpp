// A learner's weights in files and between ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "dist/context.hpp"
#include "io/run_folder.hpp"
#include "learners/buffer.hpp"
#include "rollout/collector.hpp"
#include "train/plan.hpp"

namespace snake_ddp::learners {
class Learner;
}

namespace snake_ddp::train {

/// The files to start from, by --load_model or --load_model_path; none if neither is set.
/// Throws   FileError.
std::optional<io::RunModel> weights_to_load(const TrainOptions& options);

/// Reads them. Without a critic's file it is what the actor's holds, as with Q-learners.
/// Returns  lines for the user about the files.
/// Throws   FileError.
std::vector<std::string> load_weights(const TrainOptions& options, const io::RunModel& files,
                                      learners::Learner& learner);

/// Rank 0's state on every rank, whatever each one drew from the seed.
/// Collective.
void share_weights(learners::Learner& learner, dist::DistContext& context);

std::string state_hash(learners::Learner& learner);

/// One line that shows that ranks learned the same from different experience, and whether two runs are equal.
/// Collective.
/// Returns     on rank 0 the line.
std::string fingerprint_line(learners::Learner& learner, const rollout::Collector& collector,
                             const learners::Batch& batch, dist::DistContext& context);

}  // namespace snake_ddp::train
