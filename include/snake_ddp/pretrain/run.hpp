// A stage of pretraining from its options to its exit code.
#pragma once

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/dist/world.hpp"
#include "snake_ddp/pretrain/options.hpp"

namespace snake_ddp::pretrain {

/// Trains until the epochs are done or a signal requests a stop.
/// Collective  every rank of `world` calls it with the same options.
/// Returns     kExitDone, or kExitResumable after an early stop outside torchrun.
/// Throws      base::Error of each kind.
base::ExitCode run_pretraining(const PretrainOptions& options, const dist::World& world);

}  // namespace snake_ddp::pretrain
