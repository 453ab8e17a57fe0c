// `snake_ddp --ddp --world_size 4`: this process starts its own local ranks instead of torchrun.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "snake_ddp/core/error.hpp"

namespace snake_ddp::dist {

struct LaunchLimits {
  std::chrono::milliseconds kill_after = std::chrono::seconds(30);       // from SIGTERM to SIGKILL
  std::chrono::milliseconds suspended_after = std::chrono::seconds(30);  // from a stop request to SIGKILL
  std::chrono::milliseconds finish_within = std::chrono::seconds(30);    // from the first rank's success
};

/// Starts this program `world_size` times with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR
/// and MASTER_PORT set, and waits for all of them. Forwards SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2.
/// When a rank fails, the others get SIGTERM, and SIGKILL `kill_after` later; when this process dies, they end
/// with it. When a rank has succeeded, those that still run `finish_within` later are killed, except a rank 0 that
/// is not stopped: it may wait for the reader of its output. After the third SIGINT all are killed, and those that are
/// suspended `suspended_after` after the first request to stop. Rank 0's store is at a free port,
/// held open from here on so that no other process can take it. `arguments` are each rank's, starting with the
/// program's name. A child sees RANK: it must not launch again.
/// Returns     0 if all returned 0; else the code of the rank that failed first. A rank ended by a signal
///             counts as 3, and any other code takes precedence over 3, which ranks that lost a peer return. If
///             none failed but some stopped resumable: 75.
/// Threads     call it before starting any other thread.
/// Throws      DistError if a process cannot be started.
int launch_local_ranks(int world_size, const std::vector<std::string>& arguments,
                       const LaunchLimits& limits = {});

/// Whether launch_local_ranks started this process.
bool is_own_rank();

/// The exit code of a rank that a signal stopped: `code`, but 0 under torchrun, which treats any other code as a failure.
/// Local rank 0 then writes `code` to the file that SNAKE_DDP_EXIT_CODE_FILE names, where launch/torchrun.py reads it.
core::ExitCode exit_code_after_stop(core::ExitCode code);

/// Under torchrun: ends this process as soon as the agent that started it is gone. An agent killed by SIGKILL
/// would otherwise leave its workers running on their GPUs.
void end_with_torchrun();

}  // namespace snake_ddp::dist
