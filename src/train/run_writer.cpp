#include "run_writer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "dist/build.hpp"
#include "io/atomic_file.hpp"
#include "io/folders.hpp"
#include "io/json_text.hpp"
#include "io/state_dict.hpp"
#include "learners/learner.hpp"
#include "snake_ddp/core/error.hpp"
#include "train/actor_record.hpp"

namespace snake_ddp::train {
namespace {

std::string new_identity() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

// False for a path that a network drive fails to read.
bool is_gone(const std::string& path) {
  std::error_code error;
  return std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found;
}

}  // namespace

RunWriter::RunWriter(const Plan& o, const std::string& folder, const nlohmann::ordered_json& settings,
                     const Launch& launch, const dist::DistContext& context, const std::string& identity)
    : new_(folder.empty()
               ? std::make_unique<io::NewRun>(io::create_run_folder(o.runs_dir, o.game_name, o.run_name).path)
               : nullptr),
      folder_(new_ ? new_->folder() : folder),
      claim_(folder_),
      settings_(settings),
      plan_(o) {
  // Before the work that is to be kept there.
  for (const char* name : {"trained_model", "checkpoints", "evaluation", "games"})
    io::refuse_link(folder_ + "/" + name);
  settings_["run"] = {{"id", identity.empty() ? new_identity() : identity},
                      {"world_size", context.size()},
                      {"hosts", context.hosts()},
                      {"backend", context.backend()},
                      {"device", context.device().str()},
                      {"version", dist::version_text()},
                      {"agents", launch.agents},
                      {"job", launch.job}};
}

std::string RunWriter::write_settings() {
  const std::string path = folder_ + "/config.json";
  try {
    io::write_json(path, settings_);
    settings_written_ = true;
    return {};
  } catch (const core::FileError& e) {
    // A run can continue on a full disk; without write permission it cannot store anything.
    if (new_ || ::access(folder_.c_str(), W_OK) != 0) throw;
    settings_written_ = io::parse_ordered_json(io::read_file(path)) == settings_;
    if (settings_written_) return {};
    return fmt::format(
        "config.json is still that of an earlier start; it is rewritten once there is room: {}", e.what());
  }
}

void RunWriter::has_begun() {
  if (new_) new_->has_begun();
}

bool RunWriter::mend() {
  const std::string settings = folder_ + "/config.json";
  const std::string models = folder_ + "/trained_model";
  if (!is_gone(settings) && !is_gone(models)) {
    if (!settings_written_) write_settings();
    return false;
  }
  io::make_folders(folder_);
  io::make_own_folder(models);
  claim_.reset();
  claim_.emplace(folder_);
  io::write_json(settings, settings_);
  return true;
}

void RunWriter::save(learners::Learner& learner, const std::string& name) const {
  const std::string models = folder_ + "/trained_model/";
  io::refuse_link(folder_ + "/trained_model");
  const auto in_main_memory = [](nets::NamedTensors weights) {
    for (auto& [key, tensor] : weights) tensor = tensor.to(at::kCPU);
    return weights;
  };
  const nets::NamedTensors actor = in_main_memory(learner.exported_actor()),
                           critic = in_main_memory(learner.exported_critic());
  for (const nets::NamedTensors* weights : {&actor, &critic}) io::check_numbers(*weights);
  io::save_state_dict(models + "actor_" + name + ".pth", actor, actor_record_text(plan_, actor));
  io::save_state_dict(models + "critic_" + name + ".pth", critic);
}

}  // namespace snake_ddp::train
