#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/command_line.hpp"
#include "dist/context.hpp"
#include "dist/world.hpp"
#include "io/atomic_file.hpp"
#include "io/file_error.hpp"
#include "io/json_text.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "train/loop.hpp"
#include "train/plan.hpp"
#include "train/resume.hpp"

namespace snake_ddp::app {
namespace {

// Settings are often checked on another machine than the one for the run: one that asks for a GPU will have one.
#ifdef SD_HAVE_CUDA
constexpr int kGpusElsewhere = 1;
#else
constexpr int kGpusElsewhere = 0;
#endif

int gpus_for(const train::TrainOptions& options) {
  return std::max(dist::visible_gpus(), options.device == "cuda" ? kGpusElsewhere : 0);
}

struct TrainArgs {
  train::TrainOptions options;
  Given given;
  std::optional<std::string> config;
  std::optional<std::string> learning_rate;
  bool check_settings = false;
  OwnRanks ranks;
};

// The text of the file of --config; without one, of a file without settings.
std::string config_text(const TrainArgs& line) { return line.config ? io::read_file(*line.config) : "{}"; }

// Returns the keys of that file. It may be a run's config.json. `on_gpu`: with its section for GPUs.
std::vector<std::string> set_from_config(const io::Fields& fields, const TrainArgs& line,
                                         const std::string& text, bool on_gpu = false) {
  return io::set_from_json_text(fields, text, line.config.value_or("--config"), {"run"},
                                {train::kGpuSection, on_gpu});
}

// A run's config.json is the program's own file: what is wrong in it is damage.
void set_from_run(const io::Fields& fields, const std::string& path,
                  const std::vector<std::string>& passed_over) {
  try {
    io::set_from_json_text(fields, io::read_file(path), path, passed_over);
  } catch (const core::UsageError& e) {
    throw core::FileError(
        fmt::format("{}. A run cannot be resumed without its settings: repair the file", e.what()));
  }
}

// What other settings depend on, from the command line or its configuration file: the learner, empty if neither has one, and the
// device.
train::TrainOptions first_settings(const TrainArgs& line, const std::string& text) {
  train::TrainOptions options;
  options.algo.clear();
  const io::Fields fields = train::fields(options);
  set_from_config(fields, line, text);
  Given given = line.given;
  std::erase_if(given, [](const auto& one) { return one.first != "algo" && one.first != "device"; });
  apply_given(fields, given);
  return options;
}

// All flags or, for a learner, those that it uses, with its defaults.
class TrainHelp : public Help {
 public:
  explicit TrainHelp(std::string algo) : algo_(std::move(algo)) {
    if (algo_.empty()) return;
    train::TrainOptions options = train::usual_options(algo_);
    for (const io::Field& field : train::fields(options)) {
      if (!io::is_used(field, algo_)) unused_.insert(field.name);
      defaults_[field.name] = io::value_text(field);
    }
  }

  // In the help of one learner the names in braces are redundant.
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string text = option->get_description();
    return algo_.empty() ? text : text.substr(0, text.rfind(" {"));
  }

  std::string make_footer(const CLI::App* app) const override {
    return (algo_.empty() ? "Defaults are in brackets. A flag with names in braces is only for these "
                            "learners: train --algo NAME --help shows only what NAME uses.\n"
                          : fmt::format("These flags are for --algo {}; train --help shows all.\n", algo_)) +
           "--max-episodes is --max_episodes; --mask_fatal=off switches off what a file has on.\n\n" +
           app->get_footer();
  }

 protected:
  [[nodiscard]] bool shows(const CLI::Option& option) const override {
    return !unused_.contains(option.get_lnames().front());
  }
  [[nodiscard]] std::string usual_value(const CLI::Option& option) const override {
    const auto usual = defaults_.find(option.get_lnames().front());
    return usual == defaults_.end() ? option.get_default_str() : usual->second;
  }

 private:
  std::string algo_;
  std::set<std::string> unused_;
  std::map<std::string, std::string> defaults_;
};

// The keys of a run's config.json that set nothing here; the run reports which of them are no longer settings.
std::vector<std::string> keys_passed_over(const std::string& settings, const std::string& resume) {
  std::vector<std::string> keys = {"run", "resume"};
  try {
    for (const std::string& key : train::unknown_settings(io::parse_ordered_json(io::read_file(settings))))
      keys.push_back(key);
  } catch (const io::SystemError& e) {
    if (!e.is_missing()) throw;
    throw core::FileError("--resume " + resume + ": not the folder of a run; it has no config.json");
  } catch (const core::FileError&) {  // reported when the run reads it
  }
  return keys;
}

// Sets `fields`, which are those of line.options, from the file's text and the command line.
// Returns the names of settings that the user gave.
std::vector<std::string> set_given(TrainArgs& line, const io::Fields& fields, const std::string& text,
                                   bool on_gpu) {
  std::vector<std::string> given = set_from_config(fields, line, text, on_gpu);
  // A run's config.json holds all settings, whether they were set by the user or not.
  if (std::find(given.begin(), given.end(), "run") != given.end()) given.clear();
  apply_given(fields, line.given);
  for (const auto& [name, value] : line.given) given.push_back(name);
  const auto is_typed = [&](std::string_view name) {
    return std::any_of(line.given.begin(), line.given.end(),
                       [&](const auto& typed) { return typed.first == name; });
  };
  for (const io::Field& field : fields) {
    const bool is_rate = field.name == "c_lr" || field.name == "a_lr";
    if (!line.learning_rate || !is_rate || is_typed(field.name) || !io::is_used(field, line.options.algo))
      continue;
    io::set_from_text(field, *line.learning_rate);
    given.push_back(field.name);
  }
  // A number of episodes on the command line takes the place of a file's number of steps.
  if (is_typed("max_episodes") && !is_typed("total_steps")) line.options.total_steps = 0;
  return given;
}

// Fills line.options: from the learner's defaults or the resumed run's settings, the file, and the command line.
// Returns the names of settings that the user gave.
std::vector<std::string> read_settings(TrainArgs& line) {
  const std::string text = config_text(line);  // once: a pipe can be read only once
  const train::TrainOptions first = first_settings(line, text);
  const bool on_gpu = first.device != "cpu" && gpus_for(first) > 0;
  if (!first.algo.empty()) line.options = train::usual_options(first.algo);
  std::vector<std::string> given = set_given(line, train::fields(line.options), text, on_gpu);
  if (const std::string resume = line.options.resume; train::names_a_folder(resume)) {
    // The run's own settings, unless set by the command line or the file.
    const std::string settings = train::place_of(resume).run + "/config.json";
    const std::vector<std::string> passed_over = keys_passed_over(settings, resume);
    line.options = train::TrainOptions();
    const io::Fields fields = train::fields(line.options);
    set_from_run(fields, settings, passed_over);
    given = set_given(line, fields, text, on_gpu);
  }
  return given;
}

int start_training(TrainArgs& line, const std::vector<std::string>& arguments) {
  const std::vector<std::string> given = read_settings(line);
  if (std::count(line.given.begin(), line.given.end(), std::pair<std::string, std::string>("resume", "")) > 0)
    throw core::UsageError("--resume \"\": give auto, never or a folder; an empty variable in a script?");
  check_own_ranks(line.ranks);
  const std::vector<std::string> warnings = train::check_given(line.options, given);
  train::check_together(line.options);
  const auto warn = [&] {
    for (const std::string& warning : warnings) core::tell_error("Warning: " + warning);
  };
  if (line.check_settings) {
    warn();
    const train::Machine machine = train::check_start(train::Plan(line.options), {}, gpus_for(line.options));
    const std::string choices = train::choices_text(line.options, train::chosen(line.options, machine));
    if (!choices.empty())
      core::print_result(fmt::format("On {} the run has {}\n",
                                     machine.device.is_cuda() ? "a GPU" : "this machine's CPU", choices));
    return core::kExitDone;
  }
  if (const std::optional<int> code = start_own_ranks(line.ranks, arguments)) return *code;
  const dist::World world = dist::this_world(dist::Purpose::kTraining);
  if (world.rank == 0) warn();
  return train::run_training(line.options, world);
}

}  // namespace

Action add_train(CLI::App& command, const std::vector<std::string>& arguments) {
  const auto line = std::make_shared<TrainArgs>();
  command.option_defaults()->group("Running");
  command
      .add_option("--config", line->config,
                  "a preset, or any JSON file with the names of flags; the command line wins")
      ->option_text("FILE");
  add_fields(command, train::fields(line->options), line->given);
  command.set_help_flag("-h,--help", "print this help, then exit");  // in a group, for the reference
  command.add_flag("--check_settings,--check-settings", line->check_settings,
                   "check flags and configuration file, then exit");
  command.option_defaults()->group("Learning");
  command
      .add_option("--learning_rate,--learning-rate", line->learning_rate,
                  "rate of all networks: another name for --c_lr, and of the actor, if there is one; "
                  "their own flags win")
      ->option_text("X");
  command.option_defaults()->group("This machine");
  add_own_ranks(command, line->ranks);
  command.formatter_fn([line](const CLI::App* app, std::string name, CLI::AppFormatMode mode) {
    return TrainHelp(first_settings(*line, config_text(*line)).algo).make_help(app, std::move(name), mode);
  });
  return [line, arguments] { return start_training(*line, arguments); };
}

}  // namespace snake_ddp::app
