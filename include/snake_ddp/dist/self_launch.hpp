// `snake_ddp --ddp --world_size 4`: this process starts its own local ranks instead of torchrun.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace snake_ddp::dist {

/// Starts this program `world_size` times with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR
/// and MASTER_PORT set, and waits for all of them. Passes SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 on.
/// When a rank fails the others get SIGTERM, and SIGKILL `kill_after` later; when this process dies they die
/// with it. Rank 0's store is at `port`; without one at a free port, held open from here on so that nobody
/// else can take it. `arguments` are those of each rank, the program's name first. A child sees RANK: it must
/// not launch again.
/// Returns     0 if all returned 0; else the code of the rank that failed first, where a rank that a signal
///             ended counts as 3, and any other code wins over 3, which ranks that lost a peer return; if
///             none failed but some stopped resumable: 75.
/// Threads     call it before any other thread is started.
/// Throws      DistError if `port` is taken or a process cannot be started.
int launch_local_ranks(int world_size, std::optional<std::uint16_t> port,
                       const std::vector<std::string>& arguments,
                       std::chrono::milliseconds kill_after = std::chrono::seconds(30));

/// Under torchrun: ends this process as soon as the agent that started it is gone. An agent that gets SIGKILL
/// would otherwise leave its workers behind, on their GPUs.
void end_with_torchrun();

}  // namespace snake_ddp::dist
