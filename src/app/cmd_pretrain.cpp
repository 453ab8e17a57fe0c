#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/command_line.hpp"
#include "dist/world.hpp"
#include "io/atomic_file.hpp"
#include "pretrain/options.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::app {
namespace {

struct PretrainArgs {
  pretrain::PretrainOptions options;
  Given given;
  std::optional<std::string> config;
  bool check_settings = false;
  OwnRanks ranks;
};

}  // namespace

Action add_pretrain(CLI::App& command, const std::vector<std::string>& arguments) {
  const auto line = std::make_shared<PretrainArgs>();
  add_fields(command, pretrain::fields(line->options), line->given);
  command.option_defaults()->group(pretrain::kRunning);
  command.add_option("--config", line->config, "a JSON file with the names of flags; the command line wins")
      ->option_text("FILE");
  command.add_flag("--check_settings,--check-settings", line->check_settings,
                   "check flags and configuration file, then exit");
  command.option_defaults()->group(pretrain::kThisMachine);
  add_own_ranks(command, line->ranks);
  command.footer("Defaults are in brackets. A flag with a name in braces is for that --stage.\n");
  return [line, arguments]() -> int {
    const io::Fields fields = pretrain::fields(line->options);
    std::vector<std::string> given;
    if (line->config) given = io::set_from_json_text(fields, io::read_file(*line->config), *line->config);
    apply_given(fields, line->given);
    for (const auto& [name, text] : line->given) given.push_back(name);
    check_own_ranks(line->ranks);
    pretrain::check_given(line->options, given);
    pretrain::check_together(line->options);
    if (line->check_settings) return core::kExitDone;
    if (const std::optional<int> code = start_own_ranks(line->ranks, arguments)) return *code;
    const dist::World world = dist::this_world(dist::Purpose::kTraining);
    return pretrain::run_pretraining(line->options, world);
  };
}

}  // namespace snake_ddp::app
