#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "snake_ddp/app/command_line.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/dist/self_launch.hpp"
#include "snake_ddp/dist/world.hpp"
#include "snake_ddp/train/run.hpp"

namespace snake_ddp::app {
namespace {

struct Line {
  train::TrainOptions options;
  Given given;
  std::string config;
  bool ddp = false;
  bool check_settings = false;
  int world_size = 0;
  int ddp_port = 0;
};

}  // namespace

Action add_train(CLI::App& command, const std::vector<std::string>& arguments) {
  const auto line = std::make_shared<Line>();
  command.add_option("--config", line->config, "JSON file with the same names; the command line wins");
  command.add_flag("--check_settings,--check-settings", line->check_settings,
                   "check flags and configuration file, then exit");
  command.add_flag("--ddp", line->ddp, "start --world_size ranks on this machine without torchrun");
  command.add_option("--world_size,--world-size", line->world_size, "ranks that --ddp starts")
      ->check(CLI::Range(1, 4096));
  command.add_option("--ddp_port,--ddp-port", line->ddp_port, "port of --ddp's store [a free one]")
      ->check(CLI::Range(1, 65535));
  add_fields(command, train::fields(line->options), line->given);
  return [line, arguments]() -> int {
    const config::Fields fields = train::fields(line->options);
    const auto read_settings = [&] {
      if (!line->config.empty()) config::set_from_file(fields, line->config, {"run"});
      apply_given(fields, line->given);
    };
    read_settings();
    const std::string& resume = line->options.resume;
    if (!resume.empty() && resume != "auto" && resume != "never") {
      // The run's own settings stand where nothing else is said.
      const std::string settings = resume + "/config.json";
      if (!std::filesystem::exists(settings)) {
        throw base::FileError("--resume " + resume + ": not the folder of a run; it has no config.json");
      }
      line->options = {};
      config::set_from_file(fields, settings, {"run", "resume"});
      read_settings();
    }
    train::check_together(line->options);
    if (line->check_settings) return base::kExitDone;
    const dist::World world = dist::world_from_env([](const char* name) { return std::getenv(name); });
    if (!line->ddp && line->world_size > 0) {
      throw base::UsageError("--world_size is for --ddp; under torchrun it comes from --nproc_per_node");
    }
    if (line->ddp && world.launcher == dist::Launcher::kSingle) {
      if (line->world_size == 0) throw base::UsageError("--ddp needs --world_size");
      std::vector<std::string> again = {"snake_ddp"};
      again.insert(again.end(), arguments.begin(), arguments.end());
      const std::optional<std::uint16_t> port =
          line->ddp_port > 0 ? std::optional(static_cast<std::uint16_t>(line->ddp_port)) : std::nullopt;
      return dist::launch_local_ranks(line->world_size, port, again);
    }
    return train::run_training(line->options, world);
  };
}

}  // namespace snake_ddp::app
