#include "train/origin.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>

#include "io/atomic_file.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/file_error.hpp"
#include "io/folders.hpp"
#include "io/json_text.hpp"
#include "io/run_folder.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::train {
namespace {

namespace fs = std::filesystem;
using core::FileError;
using nlohmann::ordered_json;

// A run's config.json; an empty object if there is none, and nothing if it is not one that we write.
// Throws  SystemError if it cannot be read.
std::optional<ordered_json> try_config_of(const std::string& run) {
  try {
    const ordered_json config = io::parse_ordered_json(io::read_file(run + "/config.json"));
    if (config.is_object()) return config;
  } catch (const io::SystemError& e) {
    if (e.is_missing()) return ordered_json::object();
    throw;
  } catch (const FileError&) {  // not JSON
  }
  return std::nullopt;
}

ordered_json config_of(const std::string& run) { return try_config_of(run).value_or(ordered_json::object()); }

// Its entry about the run, besides the settings.
ordered_json about(const ordered_json& config) {
  return config.contains("run") && config["run"].is_object() ? config["run"] : ordered_json::object();
}

// `with_job`: the number of SLURM's job decides, if there is one.
bool was_launched_by(const Launch& launch, bool with_job, const std::string& run) {
  const ordered_json known = about(config_of(run));
  if (with_job && !launch.job.empty()) return known.contains("job") && known["job"] == launch.job;
  if (!known.contains("agents") || !known["agents"].is_array()) return false;
  return std::any_of(known["agents"].begin(), known["agents"].end(), [&](const ordered_json& agent) {
    const auto* const name = agent.get_ptr<const std::string*>();
    return name != nullptr &&
           std::find(launch.agents.begin(), launch.agents.end(), *name) != launch.agents.end();
  });
}

bool has_checkpoints(const std::string& run) {
  return !io::checkpoints_of(run).empty() || !io::damaged_checkpoints_of(run).empty();
}

// Whether this user has no access to a folder, as opposed to one that cannot be read just now.
bool is_foreign(const io::SystemError& e) {
  return e.number == EACCES || e.number == EPERM || e.number == ELOOP || e.number == EISDIR;
}

// Text from files, without what would act on a terminal.
std::string escaped(const std::string& text) {
  const std::string quoted =
      ordered_json(text).dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

// Of a run's settings; empty if they do not say.
std::string learner_of(const std::string& run) {
  const ordered_json config = config_of(run);
  return config.contains("algo") && config["algo"].is_string() ? config["algo"].get<std::string>()
                                                               : std::string();
}

// The run with this learner that this launch began, or the newest one if runs cannot be distinguished; empty for a new one.
std::string run_meant(const TrainOptions& o, const Launch& launch, bool asked,
                      std::vector<std::string>& lines) {
  const std::vector<std::string> runs = io::run_folders(o.runs_dir, o.game_name);
  const auto look_into = [&](const std::string& run, const auto& task) {
    try {
      return task(run);
    } catch (const io::SystemError& e) {
      if (!is_foreign(e)) throw;
      const std::string line = fmt::format("Skipped {}: {}", run, e.what());
      if ((asked || launch.restarts > 0) && std::find(lines.begin(), lines.end(), line) == lines.end())
        lines.push_back(line);
      return false;
    }
  };
  std::vector<std::string> passed_over;
  const auto could_be_meant = [&](const std::string& run, const auto& task) {
    if (!look_into(run, task) || !look_into(run, has_checkpoints)) return false;
    const std::string learner = learner_of(run);
    if (learner.empty() || learner == o.algo) return true;
    passed_over.push_back(escaped(fmt::format("{} ({})", fs::path(run).filename().string(), learner)));
    return false;
  };
  const auto say = [&](const std::string& what) {
    if (!asked || passed_over.empty()) return;
    const std::size_t most = 5, more = passed_over.size() > most ? passed_over.size() - most : 0;
    passed_over.resize(passed_over.size() - more);
    lines.push_back(fmt::format("{} with --algo {}; passed over: {}{}", what, o.algo,
                                fmt::join(passed_over, ", "),
                                more > 0 ? fmt::format(", {} more", more) : ""));
  };
  const auto is_ours = [&](const std::string& run) { return was_launched_by(launch, asked, run); };
  for (const std::string& run : runs) {
    if (!could_be_meant(run, is_ours)) continue;
    say("This is the newest run");
    return run;
  }
  if (launch.restarts > 0) {
    for (const std::string& run : runs) {
      if (look_into(run, [](const std::string& r) { return !try_config_of(r) && has_checkpoints(r); })) {
        throw FileError(fmt::format(
            "{} has checkpoints, but its config.json is damaged, so it is unclear whether to resume it. "
            "Restore that file, or start with --resume never",
            run));
      }
    }
  }
  // A requeued job continues its own run.
  if (!asked || !launch.job.empty() || launch.restarts > 0) return {};
  passed_over.clear();
  for (const std::string& run : runs) {
    if (!could_be_meant(run, [](const std::string&) { return true; })) continue;
    say("This is the newest run");
    return run;
  }
  say("A new run: there is none");
  return {};
}

Origin chosen(const TrainOptions& o, const Launch& launch) {
  Origin origin;
  const bool asked = o.resume == "auto";
  std::string& run = origin.place.run;
  if (names_a_folder(o.resume)) {
    origin.place = place_of(o.resume);
    std::string& checkpoint = origin.place.checkpoint;
    if (!checkpoint.empty()) {
      const bool restarted = launch.restarts > 0;
      std::error_code unknown;
      const bool is_there =
          fs::status(io::checkpoint_folder(run, checkpoint), unknown).type() != fs::file_type::not_found;
      if (was_launched_by(launch, launch.agents.empty() && restarted, run) || (restarted && !is_there)) {
        origin.lines.push_back(
            fmt::format("{} was already resumed by an earlier start of this launch", checkpoint));
        checkpoint.clear();
      } else if (!is_there) {
        throw FileError(fmt::format(
            "--resume {}: not found. Already resumed? --resume {} resumes from its newest", o.resume, run));
      }
    }
  } else if (o.resume != "never" && (asked || !launch.agents.empty())) {
    run = run_meant(o, launch, asked, origin.lines);
    if (!run.empty() && io::checkpoints_of(run).empty())
      throw FileError(nothing_whole(run, {}, io::damaged_checkpoints_of(run)));
  }
  if (run.empty()) return origin;
  run = io::absolute_path(run);
  const ordered_json config = config_of(run);
  if (const ordered_json known = about(config); known.contains("id") && known["id"].is_string())
    origin.identity = known["id"].get<std::string>();
  const std::vector<std::string> unknown = unknown_settings(config);
  if (!unknown.empty())
    origin.lines.push_back(fmt::format("Ignored in config.json, because this version has no such setting: {}",
                                       fmt::join(unknown, ", ")));
  return origin;
}

}  // namespace

std::string nothing_whole(const std::string& run, const std::vector<std::string>& reasons,
                          const std::vector<std::string>& set_aside) {
  if (reasons.empty() && set_aside.empty())
    return fmt::format("{} has no checkpoint to resume from; start a new run with --resume never", run);
  return fmt::format(
      "no checkpoint of {} is whole{}{}. Set aside as damaged: {}. Restore one from a copy, or start a new "
      "run from its saved weights with --resume never --load_model",
      run, reasons.empty() ? "" : ": ", fmt::join(reasons, "; "),
      set_aside.empty()
          ? "none"
          : fmt::format("{}; once repaired, resume from one of them by name: --resume {}",
                        fmt::join(set_aside, ", "), io::checkpoint_folder(run, set_aside.front())));
}

Launch launch_of(const dist::World& world, dist::DistContext& context) {
  const ordered_json mine = {{"agent", world.torchrun ? dist::agent_identity() : ""},
                             {"job", world.job},
                             {"restarts", world.restart_count}};
  Launch launch;
  std::set<std::string> agents;
  for (const std::string& text : context.gather(mine.dump(), context.deadline())) {
    const ordered_json rank = ordered_json::parse(text);
    if (rank.at("agent") != "") agents.insert(rank.at("agent").get<std::string>());
    if (launch.job.empty()) launch.job = rank.at("job");
    launch.restarts = std::max(launch.restarts, rank.at("restarts").get<int>());
  }
  launch.agents.assign(agents.begin(), agents.end());
  return launch;
}

bool names_a_folder(const std::string& resume) {
  return !resume.empty() && resume != "auto" && resume != "never";
}

RunLocation place_of(const std::string& path) {
  fs::path folder = io::absolute_path(path);
  if (!folder.has_filename()) folder = folder.parent_path();
  if (folder.parent_path().filename() != "checkpoints") return {folder.string(), {}};
  return {folder.parent_path().parent_path().string(), folder.filename().string()};
}

std::vector<std::string> unknown_settings(const ordered_json& config) {
  TrainOptions options;
  const io::Fields known = fields(options);
  std::vector<std::string> unknown;
  for (const auto& [key, value] : config.items()) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '-', '_');
    if (name != "run" &&
        std::none_of(known.begin(), known.end(), [&](const io::Field& field) { return field.name == name; }))
      unknown.push_back(key);
  }
  return unknown;
}

Origin origin_of(const TrainOptions& o, const Launch& launch, dist::DistContext& context) {
  Origin origin;
  std::string refusal;
  if (context.is_main()) {
    try {
      origin = chosen(o, launch);
    } catch (const FileError& e) {
      refusal = e.what();
    }
  }
  refusal = context.broadcast_text(refusal, context.deadline());
  if (!refusal.empty()) throw FileError(refusal);
  origin.place.run = context.broadcast_text(origin.place.run, context.deadline());
  origin.place.checkpoint = context.broadcast_text(origin.place.checkpoint, context.deadline());
  return origin;
}

}  // namespace snake_ddp::train
