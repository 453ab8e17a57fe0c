// A run's settings in the form that its parts need, and what follows from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dist/context.hpp"
#include "learners/registry.hpp"
#include "learners/with_tokens.hpp"
#include "nets/precision.hpp"
#include "rollout/collector.hpp"
#include "snake_ddp/game/curriculum.hpp"
#include "snake_ddp/game/mix.hpp"
#include "snake_ddp/game/reward.hpp"
#include "snake_ddp/play/mover.hpp"
#include "train/league.hpp"
#include "train/options.hpp"

namespace snake_ddp::train {

class FileTeams;

/// The flags, parsed: numbers unchanged, values for words. A flag that the learner does not use has its default.
struct Plan : TrainOptions {
  /// Throws  UsageError for a word that its flag does not have.
  explicit Plan(const TrainOptions& options);

  const learners::LearnerEntry& learner;
  play::ObsSpec obs_spec;
  game::RewardRule reward_rule;
  nets::Head head;
  nets::Precision precision;
  game::Curriculum curriculum;
  game::Mix mix;  // empty: the curriculum decides
  game::Opponent eval_rival;
  std::optional<play::SearchSpec> eval_how;  // if evaluation games look ahead
  play::Training training;                   // what the network's values mean
  bool league;                               // what the mix contains
  bool on_device;                            // boards and replay
  bool records_updates;                      // as CUDA graphs, if the learner is on a GPU
  bool keeps_replay;                         // in checkpoints
};

/// Steps of each board between two votes of all ranks: about 20 updates, which is soon enough for a stop and seldom
/// enough to cost nothing; with --local_updates at least as many updates as that. It follows only from the settings, so that
/// each rank enters the same collectives in the same order.
std::int64_t vote_interval(const Plan& plan);

/// Whether its learner learns from whole rollouts, rather than from replay.
inline bool learns_from_rollouts(const Plan& plan) { return plan.learner.feed == learners::Feed::kRollout; }

/// Batches into which a rollout of this many steps is cut, equal on all ranks; with self-play they are larger.
std::int64_t batches_per_epoch(const Plan& plan);

/// Transitions that replay must hold: --buffer_size, or a mere one where a rollout takes its place.
std::int64_t replay_capacity(const Plan& plan);

/// The opponents of a rank's boards after so many steps of each; none with a schedule, which goes by games. Members of the league
/// are drawn anew every 200 steps, a game's most. Follows from the arguments alone.
/// Throws  UsageError if there are fewer boards than opponents.
std::vector<game::Rival> rivals_of(const Plan& plan, int rank, const League& league, std::int64_t steps);

/// "level2 13, self 38": how many boards each opponent of the mix has; empty without a mix.
std::string boards_text(const Plan& plan);

/// Teams of a rank that learn: one on each board, both where the policy plays itself.
/// Throws  UsageError if there are fewer boards than opponents.
std::int64_t learning_teams(const Plan& plan);

/// Factor on the learning rates after `steps` steps of each board, `board_steps` of all ranks' boards: 1 at the start, --lr_end after
/// --total_steps, or else as many steps as max_episodes of full length have. Both numbers are equal on all ranks.
double rate_factor(const Plan& plan, std::int64_t steps, std::int64_t board_steps);

/// What a run has, as all its ranks see it.
struct Machine {
  at::Device device = at::kCPU;
  std::string backend;  // of its ranks
  bool bf16 = false;    // all processors have instructions for it
};

/// The options with what `auto` means on this machine, for --boards, --cuda_graph and --products.
TrainOptions chosen(const TrainOptions& options, const Machine& machine);

/// "--boards device --products tf32": what was chosen, of the flags that the learner uses; empty if nothing was.
std::string choices_text(const TrainOptions& options, const TrainOptions& chosen);

/// Checks that products on this device, of this machine, can have the requested precision.
/// Throws  UsageError.
void check_products(const Plan& plan, at::Device device);

/// Checks that a machine with this many GPUs has what the run needs: a device, files to load. Returns what a run on it would be,
/// if its ranks are alike.
/// Throws  UsageError, FileError.
Machine check_start(const Plan& plan, const dist::World& world, int gpus);

/// `memory`: floats of the policy's memory per snake. The league and the files must outlive the options' users.
rollout::CollectorOptions collector_options(const Plan& plan, int rank, const League& league,
                                            const FileTeams& files, std::int64_t memory);
LeagueOptions league_options(const Plan& plan, const FileTeams* files = nullptr,
                             at::Device device = at::kCPU);
/// Throws  Bug unless its learner learns from rollouts.
rollout::RolloutOptions rollout_options(const Plan& plan, int rank);
learners::LearnerOptions learner_options(const Plan& plan, at::Device device);

/// The best tokenizer and mask predictor in `folder`, for observers with this view radius.
/// Throws  FileError if the files are missing, damaged, or made for other observations.
learners::TokenSource token_source(const std::string& folder, int view_radius, at::Device device);

}  // namespace snake_ddp::train
