// The settings of a training run: flags, configuration keys and the run's config.json all come from this list.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/fields.hpp"
#include "learners/flags.hpp"

namespace snake_ddp::train {

/// Flags as they are given. Defaults are those of the Python trainer where it has the flag.
struct TrainOptions : learners::LearnerFlags {
  io::Values jobs_own;  // intervals that only a periodic job reads, by name; filled by `fields`

  std::string game_name = "snakes_3v3";
  std::string algo = "ddpg";
  std::int64_t max_episodes = 50000;
  std::int64_t episode_length = 200;
  std::int64_t buffer_size = 100000;
  double gamma = 0.99;
  std::int64_t seed = 1;
  std::int64_t batch_size = 128;
  double epsilon = 0.5;
  double epsilon_speed = 0.9995;
  std::int64_t save_interval = 1000;
  std::int64_t model_episode = 0;
  std::string log_dir;
  std::string opponent_difficulty_strategy = "curriculum";
  bool enable_opponent_evasion = false;
  std::int64_t opponent_evasion_start_episode = 40000;
  bool load_model = false;
  std::int64_t load_model_run = 2;
  std::int64_t load_model_run_episode = 4000;
  std::int64_t local_rank = 0;

  std::string load_model_path;  // in place of the two numbers; empty: by these, if load_model is set
  std::string runs_dir = "runs";
  std::string obs = "30";
  std::string reward = "v1_2";
  std::int64_t num_envs = 1;
  double updates_per_step = 1.0;
  std::string device = "auto";
  std::string boards = "auto";
  std::string cuda_graph = "auto";
  std::string products = "auto";
  std::string dist_backend = "auto";
  std::int64_t local_updates = 0;
  double outer_momentum = 0.0;
  double dist_timeout = 600;
  double join_timeout = 300;
  std::int64_t eval_interval = 0;
  std::int64_t eval_games = 200;
  std::string eval_opponent = "level2";
  std::string eval_search;
  double target_win_rate = 0;
  std::int64_t record_interval = 0;
  std::int64_t check_consistency = 1000;
  std::int64_t threads = 0;
  bool log_every_episode = false;

  std::int64_t checkpoint_interval = 1000;
  std::int64_t keep_checkpoints = 3;
  std::string checkpoint_replay = "on";
  std::string run_name, tags;
  std::string step_axis = "episode";
  std::string resume;  // empty: auto if torchrun restarts ranks, otherwise never

  std::int64_t n_step = 1;
  std::int64_t rollout_steps = 32;
  std::int64_t rollout_epochs = 2;
  double reward_scale = 1.0;
  double epsilon_min = 0.0;
  double max_minutes = 0;
  std::int64_t total_steps = 0;  // of the boards of all ranks, in place of max_episodes; 0: none
  std::string opponent_mix;
  std::int64_t league_games = 2000;
  double league_win_rate = 0.7;
  bool mask_fatal = false;
  double lr_end = 1.0;
  double own_reward = 1.0;
  double rival_reward = 0.0;
  std::int64_t view_radius = 0;
  std::string tokens;  // folder of pretrained networks; empty: none
};

/// The list over `options`, which must outlive it. Flags of learners come from the registry, jobs' own from their table.
io::Fields fields(TrainOptions& options);

/// The defaults of the learner `algo`; its name is not set.
TrainOptions usual_options(const std::string& algo);

/// The section of a file of settings for runs on a GPU.
inline constexpr const char* kGpuSection = "cuda";

/// The settings in the text of a JSON file, over its learner's defaults, without its section for GPUs; other parameters as of
/// io::set_from_json_text.
TrainOptions options_of_file(std::string_view text, const std::string& where,
                             const std::vector<std::string>& passed_over = {});

/// Checks `given`, the flags that the user set, for flags that the learner does not use. A flag at its default is
/// ignored: that is how to undo a flag of a configuration file.
/// Returns  a warning for each flag of the Python trainer, and for settings that make a learner learn badly.
/// Throws   UsageError for others.
std::vector<std::string> check_given(const TrainOptions& options, const std::vector<std::string>& given);

/// Checks, for the flags that the learner uses, what ranges of single fields cannot express.
/// Throws  UsageError.
void check_together(const TrainOptions& options);

}  // namespace snake_ddp::train
