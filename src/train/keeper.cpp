#include "keeper.hpp"

#include <filesystem>

#include "snake_ddp/io/atomic_file.hpp"
#include "snake_ddp/io/state_dict.hpp"
#include "snake_ddp/train/run.hpp"

namespace snake_ddp::train {

Keeper::Keeper(const TrainOptions& o, const std::string& folder, const nlohmann::ordered_json& settings,
               const Launch& launch, const dist::DistContext& context)
    : folder_(folder.empty() ? io::create_run_folder(o.runs_dir, o.game_name).path : folder),
      claim_(folder_),
      settings_(settings),
      map_(o) {
  settings_["run"] = {{"world_size", context.size()},
                      {"hosts", context.hosts()},
                      {"backend", context.backend()},
                      {"device", context.device().str()},
                      {"version", version_text()},
                      {"agents", launch.agents},
                      {"job", launch.job}};
  io::write_json(folder_ + "/config.json", settings_);
}

bool Keeper::mend() {
  namespace fs = std::filesystem;
  const std::string settings = folder_ + "/config.json";
  const std::string models = folder_ + "/trained_model";
  std::error_code ignored;  // what cannot be looked at shows when it is written
  if (fs::exists(settings, ignored) && fs::exists(models, ignored)) return false;
  io::make_folders(models);
  claim_.reset();
  claim_.emplace(folder_);
  io::write_json(settings, settings_);
  return true;
}

void Keeper::save(learners::Learner& learner, const std::string& name) const {
  const std::string models = folder_ + "/trained_model/";
  io::save_state_dict(models + "actor_" + name + ".pth", map_.to_file(learner.exported_actor()));
  io::save_state_dict(models + "critic_" + name + ".pth", map_.to_file(learner.exported_critic()));
}

}  // namespace snake_ddp::train
