#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/command_line.hpp"
#include "dist/build.hpp"
#include "dist/context.hpp"
#include "io/atomic_file.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/folders.hpp"
#include "io/json_text.hpp"
#include "io/state_dict.hpp"
#include "learners/registry.hpp"
#include "nets/policy.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/host.hpp"
#include "snake_ddp/core/printable.hpp"
#include "train/actor_record.hpp"
#include "train/options.hpp"

namespace snake_ddp::app {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

// Compute capabilities for which our own kernels were compiled, as "90"; none without nvcc.
std::vector<std::string> kernels() {
  std::istringstream words(SD_KERNELS);
  return {std::istream_iterator<std::string>(words), {}};
}

ordered_json about_program() {
  std::vector<std::string> backends = {"gloo"};
#ifdef USE_C10D_NCCL
  backends.emplace_back("nccl");
#endif
  std::vector<std::string> learners;
  for (const learners::LearnerEntry& entry : learners::registry()) learners.push_back(entry.name);
  return {{"version", dist::version_text()},
          {"build", dist::build_text()},
          {"host", core::host_name()},
          {"gpus", dist::visible_gpus()},
          {"kernels", kernels()},
          {"backends", backends},
          {"learners", learners}};
}

// As which player eval takes them, or why it does not.
ordered_json player_in(const std::string& path) {
  try {
    const io::SavedWeights file = io::load_weights(path);
    const train::ActorRecord record = train::actor_record(file, path);
    return {{"obs", record.obs},
            {"head", nets::is_q_net(file.weights)       ? "values"
                     : record.head == nets::Head::kTanh ? "tanh"
                                                        : "softmax"},
            {"reward", record.reward}};
  } catch (const core::Error& e) {
    return e.what();
  }
}

ordered_json about_weights(const fs::path& path) {
  ordered_json tensors = ordered_json::object();
  std::int64_t parameters = 0;
  bool finite = true;
  const io::SavedWeights file = io::inspect_weights(path.string());
  for (const auto& [name, tensor] : file.weights) {
    tensors[name] = {{"shape", tensor.sizes().vec()}, {"dtype", std::string(tensor.dtype().name())}};
    parameters += tensor.numel();
    finite = finite && at::isfinite(tensor.to(at::kFloat)).all().item<bool>();
  }
  ordered_json about = {{"weights", path.string()}, {"whole", true},
                        {"finite", finite},         {"parameters", parameters},
                        {"tensors", tensors},       {"player", player_in(path.string())}};
  try {
    if (!file.record.empty()) about["record"] = io::parse_ordered_json(file.record);
  } catch (const core::FileError&) {
    about["record"] = file.record;  // "player" says what is wrong with it
  }
  return about;
}

// Every file is read and compared with the manifest.
ordered_json about_checkpoint(const fs::path& path) {
  const fs::path folder = path.has_filename() ? path : path.parent_path();
  ordered_json about = {{"checkpoint", folder.filename().string()}};
  try {
    const io::Manifest m = io::verify_checkpoint(folder.string());
    std::uint64_t bytes = 0;
    for (const io::CheckpointFile& f : m.files) bytes += f.seal.bytes;
    about.update({{"whole", true},
                  {"step", m.step},
                  {"updates", m.updates},
                  {"episode", m.episode},
                  {"world_size", m.world_size},
                  {"bytes", bytes},
                  {"version", m.version}});
  } catch (const core::FileError& e) {
    about.update({{"whole", false}, {"damage", e.what()}});
  }
  return about;
}

bool is_checkpoint(const fs::path& path) {
  return path.filename().string().starts_with("step_") || io::is_there(path / "manifest.json");
}

// Reads every weights file and checkpoint of a run, so "whole" means that each can be loaded.
ordered_json about_run(const fs::path& path) {
  const std::string config = (path / "config.json").string();
  if (!io::is_there(config)) {
    throw core::FileError(
        path.string() +
        " is not a run folder: it has no config.json; give a run folder, a checkpoint folder or a .pth file");
  }
  const std::string text = io::read_file(config);
  ordered_json settings;
  try {
    settings = io::parse_ordered_json(text);
  } catch (const core::FileError& e) {
    throw core::FileError(config + ": " + e.what() + "; is it truncated?");
  }
  std::vector<std::string> models, broken;
  for (const std::string& name : io::names_in(path / "trained_model")) {
    if (!name.ends_with(".pth")) continue;
    models.push_back(name);
    try {
      io::load_state_dict(path / "trained_model" / name);
    } catch (const core::FileError& e) {
      broken.push_back(e.what());
    }
  }
  ordered_json checkpoints = ordered_json::array();
  for (const std::int64_t step : io::checkpoints_of(path.string())) {
    checkpoints.push_back(about_checkpoint(io::checkpoint_folder(path.string(), step)));
    const ordered_json& last = checkpoints.back();
    if (!last["whole"].get<bool>()) broken.push_back(last["damage"]);
  }
  return {{"run", path.string()},       {"whole", broken.empty()},
          {"broken", broken},           {"models", models},
          {"checkpoints", checkpoints}, {"resumable", io::is_there(path / "checkpoints" / "resumable")},
          {"settings", settings}};
}

ordered_json about_path(const std::string& path) {
  if (!io::is_folder(path)) return about_weights(path);
  return is_checkpoint(path) ? about_checkpoint(path) : about_run(path);
}

// Of several, one that cannot be read does not hide the others.
std::vector<ordered_json> about_each(const std::vector<std::string>& paths) {
  if (paths.empty()) return {about_program()};
  if (paths.size() == 1) return {about_path(paths.front())};
  std::vector<ordered_json> all;
  for (const std::string& path : paths) {
    try {
      all.push_back(about_path(path));
    } catch (const core::FileError& e) {
      all.push_back({{"path", path}, {"whole", false}, {"damage", e.what()}});
    }
  }
  return all;
}

// Tensor names may be any bytes.
std::string text_of(const ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void print_plain(const ordered_json& about) {
  for (const auto& [key, value] : about.items()) {
    if (value.is_object()) {
      core::print_result(fmt::format("{}:\n", key));
      for (const auto& [name, item] : value.items()) {
        const std::string quoted = text_of(name);
        core::print_result(fmt::format("  {:<32} {}\n", core::as_plain(quoted.substr(1, quoted.size() - 2)),
                                       core::as_plain(text_of(item))));
      }
    } else {
      core::print_result(fmt::format(
          "{:<12} {}\n", key, core::as_plain(value.is_string() ? value.get<std::string>() : text_of(value))));
    }
  }
}

}  // namespace

Action add_info(CLI::App& command) {
  struct Line {
    std::vector<std::string> paths;
    bool json = false;
  };
  const auto line = std::make_shared<Line>();
  command
      .add_option("paths", line->paths,
                  "run folders, checkpoint folders or weights files; without any: this program and machine")
      ->option_text("PATH ...");
  command.add_flag("--json", line->json,
                   "one JSON object on stdout; with several paths, their list as \"paths\"");
  return [line]() -> int {
    const std::vector<ordered_json> all = about_each(line->paths);
    if (line->json) {
      core::print_result(
          fmt::format("{}\n", text_of(all.size() == 1 ? all.front() : ordered_json{{"paths", all}})));
    } else {
      for (const ordered_json& about : all) {
        if (&about != &all.front()) core::print_result("\n");
        print_plain(about);
      }
    }
    const bool whole = std::all_of(all.begin(), all.end(),
                                   [](const ordered_json& about) { return about.value("whole", true); });
    return whole ? core::kExitDone : core::kExitFile;
  };
}

}  // namespace snake_ddp::app
