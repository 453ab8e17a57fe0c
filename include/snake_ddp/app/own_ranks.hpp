// --ddp: commands that start their own ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace snake_ddp::app {

struct OwnRanks {
  bool ddp = false;
  int world_size = 0;
};

/// --ddp, --world_size. `ranks` must outlive the command.
void add_own_ranks(CLI::App& command, OwnRanks& ranks);

/// Throws  UsageError if the flags contradict each other.
void check_own_ranks(const OwnRanks& ranks);

/// If --ddp is given and this process is not one of its ranks, starts them, waits for them, and returns their exit
/// code. `arguments` are the whole line.
/// Throws  UsageError among several ranks of torchrun, srun or MPI; DistError as launch_local_ranks.
std::optional<int> start_own_ranks(const OwnRanks& ranks, const std::vector<std::string>& arguments);

}  // namespace snake_ddp::app
