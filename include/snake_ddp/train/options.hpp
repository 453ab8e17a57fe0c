// The settings of a training run: flags, configuration keys and the run's config.json are this one list.
#pragma once

#include <cstdint>
#include <string>

#include "snake_ddp/config/fields.hpp"

namespace snake_ddp::train {

/// Defaults are those of the Python trainer where it has the flag.
struct TrainOptions {
  std::string game_name = "snakes_3v3";
  std::string algo = "ddpg";
  std::int64_t max_episodes = 50000;
  std::int64_t episode_length = 200;
  std::string output_activation = "softmax";
  std::int64_t buffer_size = 100000;
  double tau = 0.01;
  double gamma = 0.99;
  std::int64_t seed = 1;
  double a_lr = 3e-4;
  double c_lr = 3e-4;
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

  std::string runs_dir = "runs";
  std::string obs = "30";
  std::string reward = "v1_2";
  std::int64_t num_envs = 1;
  double updates_per_step = 1.0;
  std::int64_t hidden_size = 256;
  std::string lr_scaling = "none";
  std::string device = "auto";
  std::string boards = "host";
  std::string cuda_graph = "off";
  std::string overlap = "off";
  std::string products = "float32";
  std::string dist_backend = "auto";
  bool shared_memory = true;
  double dist_timeout = 600;
  double join_timeout = 300;
  std::int64_t eval_interval = 0;
  std::int64_t eval_games = 200;
  std::string eval_opponent = "level2";
  double target_win_rate = 0;
  std::int64_t record_interval = 0;
  std::int64_t check_consistency = 1000;
  std::int64_t threads = 0;
  bool log_every_episode = false;

  std::int64_t checkpoint_interval = 1000;
  std::int64_t keep_checkpoints = 3;
  std::string checkpoint_replay = "on";
  std::string resume;  // empty: auto where torchrun starts ranks anew, else never

  std::int64_t n_step = 1;
  std::int64_t rollout_steps = 32;
  std::int64_t rollout_epochs = 2;
  double td_lambda = 0.65;
  std::int64_t sequence_length = 16;
  std::int64_t burn_in = 4;
  bool scale_features = false;
  double reward_scale = 1.0;
  bool layer_norm = false;
  double epsilon_min = 0.0;
  std::string stored_action = "output";
  bool expected_value = false;
  std::int64_t actor_interval = 1;
  bool clipped_double_critics = false;
  bool coalesced_update = false;
  double max_minutes = 0;
  std::string opponent_mix;
  std::int64_t league_interval = 10000;
  std::int64_t league_games = 2000;
  double league_win_rate = 0.7;
  bool mask_fatal = false;
  double max_grad_norm = 1.0;
  double lr_end = 1.0;
  double own_reward = 1.0;
  double rival_reward = 0.0;
  std::int64_t view_radius = 0;
  std::string tokens;  // folder of what pretraining learned; empty: none
};

/// The list over `options`, which must outlive it.
config::Fields fields(TrainOptions& options);

/// Checks what ranges of single fields cannot say.
/// Throws  UsageError.
void check_together(const TrainOptions& options);

}  // namespace snake_ddp::train
