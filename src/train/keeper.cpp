#include "keeper.hpp"

#include "snake_ddp/io/atomic_file.hpp"
#include "snake_ddp/io/state_dict.hpp"
#include "snake_ddp/train/run.hpp"

namespace snake_ddp::train {

Keeper::Keeper(const TrainOptions& o, const std::string& folder, const nlohmann::ordered_json& settings,
               const Launch& launch, const dist::DistContext& context)
    : folder_(folder.empty() ? io::create_run_folder(o.runs_dir, o.game_name).path : folder),
      claim_(folder_),
      map_(o) {
  nlohmann::ordered_json all = settings;
  all["run"] = {{"world_size", context.size()},
                {"hosts", context.hosts()},
                {"backend", context.backend()},
                {"device", context.device().str()},
                {"version", version_text()},
                {"agents", launch.agents},
                {"job", launch.job}};
  io::write_json(folder_ + "/config.json", all);
}

void Keeper::save(learners::Learner& learner, const std::string& name) const {
  const std::string models = folder_ + "/trained_model/";
  io::save_state_dict(models + "actor_" + name + ".pth", map_.to_file(learner.exported_actor()));
  io::save_state_dict(models + "critic_" + name + ".pth", map_.to_file(learner.exported_critic()));
}

}  // namespace snake_ddp::train
