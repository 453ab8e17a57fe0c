// The environment contract: this process's place among the ranks, according to torchrun, srun or the user.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace snake_ddp::dist {

enum class Launcher {
  kSingle,    // none of the variables: one process
  kTorchrun,  // RANK, WORLD_SIZE, MASTER_ADDR ...: torchrun, Kubernetes, our own launcher, or set by hand
  kSlurm,     // a task of srun
  kMpi,       // OMPI_COMM_WORLD_RANK and the like, and MASTER_ADDR
};

/// A shell may have variables of a group to which a program in it does not belong. Training then refuses to run as one process by
/// mistake; everything else has the same result as one process.
enum class Purpose { kTraining, kOther };

struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this machine
  int local_size = 1;
  int restart_count = 0;     // the launcher's; may differ between machines, so no key is built from it
  bool agent_store = false;  // torchrun's agent hosts the store; otherwise rank 0 does
  Launcher launcher = Launcher::kSingle;
  std::string master_addr = "127.0.0.1";  // without the brackets of [::1]
  std::uint16_t master_port = 29500;
  bool torchrun = false;  // started by torchrun; it hides exit codes and restarts ranks
  std::string job;        // SLURM's job number, the same when it is requeued; empty outside of SLURM
  int store_fd = -1;      // a listening socket at master_port inherited from launch_local_ranks; rank 0 only

  /// One process, which may start ranks of its own.
  [[nodiscard]] bool alone() const { return size == 1; }
};

/// Looks up a variable, null if unset; empty counts as unset. `std::getenv` works.
using Environment = std::function<const char*(const char*)>;

/// Reads the world from the environment. Only RANK and WORLD_SIZE make a group; MASTER_ADDR, MASTER_PORT and the rest
/// qualify it. Without both: the variables of a launcher of MPI, if they say that there are several processes (to train: or
/// leave it open); then SLURM's (only inside an srun step: a batch shell has SLURM_PROCID as well; and in a shell of
/// `srun --pty` only to train); else one process.
/// Throws      UsageError: variables that are missing (lists those set, too), not a number, a rank outside of its
///             world.
/// Follows     torchrun 2.11; SLURM 22.05; MASTER_ADDR and MASTER_PORT override SLURM's variables.
World world_from_env(const Environment& env, Purpose purpose);

/// The world of this process.
/// Throws      as world_from_env.
World this_world(Purpose purpose = Purpose::kTraining);

/// The world of this process for a launcher in it, which replaces RANK and its family: only that of torchrun, srun or MPI.
/// Throws      as world_from_env.
World launcher_world();

/// "rank 1 on nodeA" if this process has RANK and WORLD_SIZE, else nothing.
std::string this_rank();

/// A unique name of the torchrun agent that started this rank, directly or through a script that does not exec: "host
/// process start-time". It stays the same when the agent restarts its ranks.
std::string agent_identity();

/// The first host of a SLURM node list: "n[03-05,7]-ib,login" begins with n03-ib.
/// Throws   UsageError on an empty list or brackets that do not match.
std::string slurm_first_host(std::string_view node_list);

/// Entry `node` of SLURM's repeated counts: "8(x2),4" is 8, 8, 4.
/// Throws   UsageError if it cannot be read or has no such entry.
int slurm_tasks_on_node(std::string_view counts, int node);

}  // namespace snake_ddp::dist
