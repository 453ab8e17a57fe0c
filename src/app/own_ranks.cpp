#include "snake_ddp/app/own_ranks.hpp"

#include <fmt/format.h>

#include "snake_ddp/base/console.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/text.hpp"
#include "snake_ddp/dist/self_launch.hpp"
#include "snake_ddp/dist/world.hpp"

namespace snake_ddp::app {

void add_own_ranks(CLI::App& command, OwnRanks& ranks) {
  command.add_flag("--ddp", ranks.ddp, "start --world_size ranks on this machine without torchrun");
  command.add_option("--world_size,--world-size", ranks.world_size, "ranks that --ddp starts")
      ->check(CLI::Range(1, 4096));
}

void check_own_ranks(const OwnRanks& ranks) {
  if (!ranks.ddp && ranks.world_size > 0)
    throw base::UsageError("--world_size is for --ddp; under torchrun it comes from --nproc_per_node");
  if (ranks.ddp && ranks.world_size == 0) throw base::UsageError("--ddp needs --world_size");
}

std::optional<int> start_own_ranks(const OwnRanks& ranks, const std::vector<std::string>& arguments) {
  if (!ranks.ddp || dist::is_own_rank()) return std::nullopt;
  const dist::World world = dist::launcher_world();
  if (!world.alone()) {
    if (world.size == ranks.world_size) return std::nullopt;  // one of those ranks
    throw base::UsageError(
        fmt::format("--ddp --world_size {}: this process is already one of the {} of {}; leave --ddp out",
                    ranks.world_size, base::counted(world.size, "rank"),
                    world.launcher == dist::Launcher::kSlurm ? "srun" : "another launcher"));
  }
  if (!dist::this_rank().empty())
    base::tell_error(
        "--ddp: RANK and WORLD_SIZE are set in this shell; the ranks started here get their own");
  std::vector<std::string> again = {"snake_ddp"};
  again.insert(again.end(), arguments.begin(), arguments.end());
  return dist::launch_local_ranks(ranks.world_size, again);
}

}  // namespace snake_ddp::app
