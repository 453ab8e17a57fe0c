#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "snake_ddp/app/command_line.hpp"
#include "snake_ddp/app/own_ranks.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/dist/world.hpp"
#include "snake_ddp/io/atomic_file.hpp"
#include "snake_ddp/io/file_error.hpp"
#include "snake_ddp/io/json_text.hpp"
#include "snake_ddp/train/resume.hpp"
#include "snake_ddp/train/run.hpp"

namespace snake_ddp::app {
namespace {

struct Line {
  train::TrainOptions options;
  Given given;
  std::string config;
  bool check_settings = false;
  OwnRanks ranks;
};

// Those of a run's config.json that set nothing here; the run tells which of them are no settings any more.
std::vector<std::string> keys_passed_over(const std::string& settings, const std::string& resume) {
  std::vector<std::string> keys = {"run", "resume"};
  try {
    for (const std::string& key : train::unknown_settings(io::parse_ordered_json(io::read_file(settings))))
      keys.push_back(key);
  } catch (const io::SystemError& e) {
    if (!e.is_missing()) throw;
    throw base::FileError("--resume " + resume + ": not the folder of a run; it has no config.json");
  } catch (const base::FileError&) {  // told by who reads it in earnest
  }
  return keys;
}

}  // namespace

Action add_train(CLI::App& command, const std::vector<std::string>& arguments) {
  const auto line = std::make_shared<Line>();
  command.add_option("--config", line->config, "JSON file with the same names; the command line wins");
  command.add_flag("--check_settings,--check-settings", line->check_settings,
                   "check flags and configuration file, then exit");
  add_own_ranks(command, line->ranks);
  add_fields(command, train::fields(line->options), line->given);
  return [line, arguments]() -> int {
    const config::Fields fields = train::fields(line->options);
    const auto read_settings = [&] {
      if (!line->config.empty()) config::set_from_file(fields, line->config, {"run"});
      apply_given(fields, line->given);
    };
    read_settings();
    if (const std::string resume = line->options.resume; train::names_a_folder(resume)) {
      // The run's own settings stand where nothing else is said.
      const std::string settings = train::place_of(resume).run + "/config.json";
      const std::vector<std::string> passed_over = keys_passed_over(settings, resume);
      line->options = {};
      config::set_from_file(fields, settings, passed_over);
      read_settings();
    }
    train::check_together(line->options);
    if (line->check_settings) return base::kExitDone;
    const dist::World world = dist::world_from_env([](const char* name) { return std::getenv(name); });
    if (const std::optional<int> code = start_own_ranks(line->ranks, world, arguments)) return *code;
    return train::run_training(line->options, world);
  };
}

}  // namespace snake_ddp::app
