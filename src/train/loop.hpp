// A training run from its options to its exit.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "dist/world.hpp"
#include "snake_ddp/core/error.hpp"
#include "train/options.hpp"

namespace snake_ddp::train {

/// The progress of a run on this rank: steps of all boards together, and updates.
struct Progress {
  std::int64_t steps = 0;
  std::int64_t updates = 0;
};

/// Called after each step of the boards and its updates, for measurements. It must not change the run.
using Watch = std::function<void(const Progress&)>;

/// Trains until the episodes are used up, the target is reached, or a signal requests a stop. A rank that makes no
/// progress for --dist_timeout plus `patience` is ended.
/// Collective  every rank of `world` calls it with the same options.
/// Returns     kExitDone; after an early stop outside torchrun kExitResumable, or kExitFile without checkpoints.
/// Throws      core::Error of each kind.
core::ExitCode run_training(const TrainOptions& options, const dist::World& world, const Watch& watch = {},
                            std::chrono::milliseconds patience = std::chrono::minutes(1));

}  // namespace snake_ddp::train
