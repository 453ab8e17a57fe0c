// A training run from its options to its exit.
#pragma once

#include <string>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/dist/world.hpp"
#include "snake_ddp/train/options.hpp"

namespace snake_ddp::train {

/// Trains until the episodes are used up, the target is reached, or a signal asks to stop.
/// Collective  every rank of `world` calls it with the same options.
/// Returns     kExitDone, or kExitResumable after an early stop outside torchrun.
/// Throws      base::Error of each kind.
base::ExitCode run_training(const TrainOptions& options, const dist::World& world);

/// Of the program: version, and what it was built with.
std::string version_text();

}  // namespace snake_ddp::train
