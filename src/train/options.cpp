#include "train/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "io/run_folder.hpp"
#include "learners/registry.hpp"
#include "periodic.hpp"
#include "pipeline.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/printable.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/curriculum.hpp"
#include "snake_ddp/game/hidden_view.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "train/plan.hpp"

namespace snake_ddp::train {

namespace {

using io::flag, io::number, io::text;
using learners::Feed, learners::LearnerEntry;
using Names = std::vector<std::string>;

Names names_of(const std::function<bool(const LearnerEntry&)>& chosen) {
  Names names;
  for (const LearnerEntry& entry : learners::registry())
    if (chosen(entry)) names.push_back(entry.name);
  return names;
}

io::Field only(const std::function<bool(const LearnerEntry&)>& chosen, io::Field field) {
  field.used_by = names_of(chosen);
  return field;
}

// The learners' flags, with the learners that use each.
io::Fields learner_fields(TrainOptions& o) {
  std::map<std::string, Names> users;
  for (const LearnerEntry& entry : learners::registry())
    for (const io::Field& field : entry.flags()) users[field.name].push_back(entry.name);
  io::Fields all = o.all_fields();
  for (io::Field& field : all)
    if (users[field.name].size() < learners::registry().size()) field.used_by = users[field.name];
  return all;
}

constexpr const char* kPython = "As in the Python trainer";

}  // namespace

io::Fields fields(TrainOptions& o) {
  io::Fields all, listed_elsewhere = io::joined({learner_fields(o), job_flags(o.jobs_own)});
  const auto add = [&](const std::string& group, io::Fields fields) {
    for (io::Field& field : io::under(group, std::move(fields))) all.push_back(std::move(field));
    std::erase_if(listed_elsewhere, [&](const io::Field& field) {
      if (field.group == group) all.push_back(field);
      return field.group == group;
    });
  };
  const auto replay = [](const LearnerEntry& e) { return e.feed != Feed::kRollout; };
  const auto rollouts = [](const LearnerEntry& e) { return e.feed == Feed::kRollout; };
  add("Running",
      {
          text("resume", &o.resume,
               "auto, never, or the folder of the run or checkpoint to continue; by default auto after a "
               "restart by torchrun, else never"),
          text("device", &o.device, "where the networks run", {"auto", "cpu", "cuda"}),
          text("load_model_path", &o.load_model_path,
               "start from these weights: an actor_*.pth, or a run's folder for its last ones; --load_model "
               "PATH sets it"),
          number("max_minutes", &o.max_minutes, "maximum training time in minutes; 0: no limit", 0, 1e6),
          number("total_steps", &o.total_steps,
                 "stop after this many steps of boards, of all ranks together, so that more ranks end "
                 "sooner; 0: by --max_episodes",
                 0, 1e18),
          number("eval_interval", &o.eval_interval,
                 "episodes between evaluations, whose games all ranks share; 0: none", 0, kMany),
          number("eval_games", &o.eval_games, "games per evaluation", 1, 1e9),
          text("eval_opponent", &o.eval_opponent, "opponent in evaluations", game::opponent_names()),
          only(&LearnerEntry::searches,
               text("eval_search", &o.eval_search,
                    "search used in evaluations and league matches, such as look4 or "
                    "puct100; by default none")),
          number("target_win_rate", &o.target_win_rate,
                 "stop when an evaluation reaches this win rate; 0: never", 0, 1),
          number("check_consistency", &o.check_consistency,
                 "updates between comparisons of all ranks' weights; 0: never", 0, kMany),
          flag("log_every_episode", &o.log_every_episode,
               "print every episode, in the Python trainer's format, instead of a line every five seconds"),
      });
  add(kPython,
      {
          text("game_name", &o.game_name, "the game; run folders are grouped under it", {"snakes_3v3"}),
          text("algo", &o.algo, "the learner", names_of([](const LearnerEntry&) { return true; })),
          number("max_episodes", &o.max_episodes,
                 "episodes that each rank plays; with --total_steps only what the schedule of opponents "
                 "goes by",
                 1, kMany),
          number("episode_length", &o.episode_length,
                 "steps after which a game is cut off; a whole game has 200", 1, 200),
          only(replay, number("buffer_size", &o.buffer_size,
                              "capacity of each rank's replay buffer, in transitions", 1, 4e9)),
          number("gamma", &o.gamma, "discount factor per step", 0, 1),
          number("seed", &o.seed,
                 "seed of the weights, the same on all ranks; seed + rank is the seed of what a rank plays",
                 0, 4e18),
          number("batch_size", &o.batch_size, "batch size of each rank, in team transitions of three snakes",
                 1, 1e7),
          number("epsilon", &o.epsilon, "exploration rate at the start", 0, 1),
          number("epsilon_speed", &o.epsilon_speed, "factor on epsilon after every decision", 0, 1),
          number("save_interval", &o.save_interval, "episodes between saves of actor and critic", 1, kMany),
          number("model_episode", &o.model_episode, "added to the episode numbers in file names", 0, kMany),
          text("log_dir", &o.log_dir, "kept in config.json, otherwise unused"),
          text("opponent_difficulty_strategy", &o.opponent_difficulty_strategy,
               fmt::format("how the opponent gets harder: curriculum, linear, exponential, or fixed:LEVEL, "
                           "where LEVEL is one of {}",
                           fmt::join(game::fixed_levels(), ", "))),
          flag("enable_opponent_evasion", &o.enable_opponent_evasion,
               "play the evasion opponent from --opponent_evasion_start_episode on"),
          number("opponent_evasion_start_episode", &o.opponent_evasion_start_episode,
                 "first episode against the evasion opponent", 0, kMany),
          flag("load_model", &o.load_model, "start from a saved actor and critic"),
          number("load_model_run", &o.load_model_run, "number of the run to load from", 0, kMany),
          number("load_model_run_episode", &o.load_model_run_episode, "episode to load", 0, kMany),
          number("local_rank", &o.local_rank, "ignored: the variable LOCAL_RANK decides", 0, kMany),
      });
  add("Learning",
      {
          text("obs", &o.obs, "what a snake observes",
               {std::begin(game::kObsKindNames), std::end(game::kObsKindNames)}),
          text("reward", &o.reward, "reward shaping; score is the game's own reward",
               {"2021", "v1_1", "v1_2", "score"}),
          number("reward_scale", &o.reward_scale, "factor on shaped rewards", 1e-6, 1e6),
          only([](const LearnerEntry& e) { return !e.team_value; },
               number("own_reward", &o.own_reward,
                      "weight of a snake's own reward; the rest is its team's mean", 0, 1)),
          number("rival_reward", &o.rival_reward,
                 "weight of the opponents' mean game reward, which is subtracted", 0, 10),
          number("num_envs", &o.num_envs, "boards per rank, stepped together", 1, 1e6),
          only(replay, number("updates_per_step", &o.updates_per_step,
                              "learner updates per step of one board; may be below 1", 0, 1000)),
          number("local_updates", &o.local_updates,
                 "updates that each rank makes by itself between averages of the ranks' weights; 0: "
                 "gradients are averaged in each update",
                 0, 1000),
          number("outer_momentum", &o.outer_momentum,
                 "with --local_updates: momentum of the step from the last average to the new one", 0, 0.999),
          number("lr_end", &o.lr_end,
                 "learning rates fall linearly over total_steps or max_episodes to this fraction of their "
                 "start",
                 0, 1),
          number("epsilon_min", &o.epsilon_min,
                 "above 0: epsilon does not decay; the boards have fixed values between this and --epsilon, "
                 "spaced geometrically",
                 0, 1),
          flag("mask_fatal", &o.mask_fatal, "exclude fatal moves: certain death, and reversals"),
          only(&LearnerEntry::n_step,
               number("n_step", &o.n_step, "rewards summed before bootstrapping", 1, 200)),
          only(rollouts,
               number("rollout_steps", &o.rollout_steps, "steps of each board in a rollout", 1, 1e6)),
          only(rollouts, number("rollout_epochs", &o.rollout_epochs, "passes over each rollout", 1, 1000)),
          number("view_radius", &o.view_radius,
                 "with --obs window: hide cells farther than this from a snake's head, at least 3; 0: none",
                 0, 10),
          only(&LearnerEntry::tokens,
               text("tokens", &o.tokens,
                    "folder written by snake_ddp pretrain: adds tokens of the snakes in view, and predicted "
                    "tokens of the others, to the observation")),
      });
  add("Opponents",
      {
          text("opponent_mix", &o.opponent_mix,
               "divide the boards among these opponents, instead of the schedule: scripted ones, self, "
               "league and networks' files, for example level2:0.7,self:0.3,file:PATH:0.5"),
          number("league_games", &o.league_games, "games per match, shared among the members", 100, 1e9),
          number("league_win_rate", &o.league_win_rate,
                 "win rate in a match at which a frozen copy of the learner joins the league", 0, 1),
      });
  add("Saving",
      {
          text("runs_dir", &o.runs_dir, "run folders are made in <runs_dir>/<game_name>/"),
          text("run_name", &o.run_name,
               "ends the name of the new run's folder; letters, digits, '.', '-' and '_'"),
          text("tags", &o.tags, "words about the run, kept in config.json"),
          text("step_axis", &o.step_axis,
               "what TensorBoard's curves go by: rank 0's episodes, or the steps of all ranks' boards",
               {"episode", "env"}),
          number("checkpoint_interval", &o.checkpoint_interval,
                 "episodes between checkpoints of the full training state; 0: none", 0, kMany),
          number("keep_checkpoints", &o.keep_checkpoints, "number of checkpoints to keep", 1, 1e6),
          text("checkpoint_replay", &o.checkpoint_replay, "save replay with each checkpoint", {"on", "off"}),
          number("record_interval", &o.record_interval,
                 "episodes between game logs of rank 0's first board, written to games/; 0: none", 0, kMany),
      });
  add("This machine",
      {
          only(&LearnerEntry::device_boards,
               text("boards", &o.boards,
                    "where games are played and replay is kept: main memory, or the device of the networks; "
                    "auto: there, if it is a GPU and the boards are many",
                    {"auto", "host", "device"})),
          only(
              &LearnerEntry::cuda_graphs,
              text("cuda_graph", &o.cuda_graph,
                   "record updates on a GPU as CUDA graphs; auto: where they can be", {"auto", "on", "off"})),
          only(&LearnerEntry::low_precision,
               text("products", &o.products,
                    "precision of matmuls: tf32 is for GPUs; bf16 for CPUs with AMX or AVX512-BF16 and "
                    "Q-networks without memory; auto: what the machine has of these",
                    {"auto", "float32", "tf32", "bf16"})),
          number("threads", &o.threads,
                 "threads of matmuls; 0: cores / ranks on this machine. At most sizes one is as "
                 "fast: start a "
                 "rank for each core",
                 0, 4096),
          text("dist_backend", &o.dist_backend, "communication between ranks", {"auto", "nccl", "gloo"}),
          number("dist_timeout", &o.dist_timeout,
                 "seconds that a collective may take; after that the run ends with an error", 0.1, 1e6),
          number("join_timeout", &o.join_timeout, "seconds that ranks wait for each other at the start", 0.1,
                 1e6),
      });
  SD_CHECK(listed_elsewhere.empty(),
           "each flag of a learner or job needs a heading of --help; without one: --" +
               listed_elsewhere.front().name);
  return all;
}

TrainOptions usual_options(const std::string& algo) {
  TrainOptions usual;
  io::set_from_values(fields(usual), learners::find_learner(algo).defaults);
  return usual;
}

TrainOptions options_of_file(std::string_view text, const std::string& where, const Names& passed_over) {
  TrainOptions first;
  io::set_from_json_text(fields(first), text, where, passed_over, {kGpuSection});
  TrainOptions options = usual_options(first.algo);
  io::set_from_json_text(fields(options), text, where, passed_over, {kGpuSection});
  return options;
}

Names check_given(const TrainOptions& options, const Names& given) {
  TrainOptions copy = options, defaults;
  io::Fields flags = fields(copy), usual = fields(defaults);
  const auto of = [&](bool python) {
    io::Fields some, theirs;
    for (std::size_t i = 0; i < flags.size(); ++i) {
      if ((flags[i].group == kPython) != python) continue;
      some.push_back(flags[i]);
      theirs.push_back(usual[i]);
    }
    return io::without_effect(some, theirs, given, "algo", options.algo);
  };
  const Names refusals = of(false);
  if (!refusals.empty()) throw core::UsageError(fmt::format("{}: leave it out", fmt::join(refusals, "; ")));
  Names warnings = of(true);
  if (learners::find_learner(options.algo).lone_critic &&
      (options.own_reward < 1 || options.rival_reward > 0))
    warnings.push_back(
        fmt::format("--own_reward below 1 and --rival_reward above 0 make --algo {} learn badly: its critic "
                    "sees one snake, "
                    "and cannot tell what of a team's reward that snake earned",
                    options.algo));
  return warnings;
}

void check_together(const TrainOptions& options) {
  const Plan o(options);
  const Feed feed = o.learner.feed;
  const std::int64_t transitions = o.rollout_steps * o.num_envs;
  struct Rule {
    bool broken;
    std::string message;
  };
  std::vector<Rule> rules = {
      {o.runs_dir.empty(),
       "--runs_dir \"\": name a folder for the runs, or leave it out; an empty variable in a script?"},
      {!io::is_run_name(o.run_name),
       fmt::format("--run_name \"{}\": at most 100 letters, digits, '.', '-' and '_'",
                   core::as_plain(o.run_name))},
      {o.view_radius > 0 && (o.obs_spec.kind != game::ObsKind::kWindow || o.view_radius < game::kLeastRadius),
       fmt::format(
           "--view_radius {} needs --obs window, and a value of at least {}, the radius of the window itself",
           o.view_radius, game::kLeastRadius)},
      {o.obs_spec.tokens && o.view_radius == 0,
       "--tokens is for a limited view: set --view_radius and --obs window"},
      {o.mirror_symmetric && (!game::is_view(o.obs_spec.kind) || o.obs_spec.tokens || o.hidden_size % 2 != 0),
       "--mirror_symmetric is for --obs window, view or ahead without --tokens, and an even --hidden_size"},
      {o.obs_spec.tokens && o.league, "--tokens has no league: its frozen copies would need the tokens, too"},
      {o.obs_spec.tokens && o.records_updates, "--cuda_graph on is for updates without --tokens"},
      {o.on_device && o.record_interval > 0,
       "--record_interval is for --boards host: games on a device are not recorded"},
      {o.local_updates > 0 && o.records_updates,
       "--cuda_graph on is for gradients that are averaged in each update: leave out either it, or "
       "--local_updates"},
      {o.local_updates == 0 && o.outer_momentum != 0,
       "--outer_momentum is for averages of weights: set --local_updates too"},
      {o.products == "bf16" && o.learner.actor,
       fmt::format("--products bf16 is for Q-networks: leave it out with --algo {}", o.algo)},
      {o.device == "cpu" && o.products == "tf32",
       "--products tf32 is for GPUs: leave out either it or --device cpu"},
      {o.device == "cuda" && o.products == "bf16",
       "--products bf16 is for CPUs: use tf32, or leave out either it or --device cuda"},
      {o.dist_backend == "nccl" && o.device == "cpu",
       "--dist_backend nccl works on GPUs only: leave out --device cpu, or use --dist_backend gloo"},
      {feed == Feed::kWindows && o.batch_size < o.sequence_length,
       fmt::format("--batch_size {} is smaller than --sequence_length {}: it would hold no window",
                   o.batch_size, o.sequence_length)},
      {feed == Feed::kRollout && transitions < o.batch_size,
       fmt::format(
           "--rollout_steps {} x --num_envs {} = {}, fewer than --batch_size {}: raise one of the first two, "
           "or start from a preset, such as configs/champion.json",
           o.rollout_steps, o.num_envs, core::counted(transitions, "transition"), o.batch_size)},
      {feed != Feed::kRollout && o.buffer_size < o.batch_size,
       fmt::format("--buffer_size {} is smaller than --batch_size {}: no batch could be drawn", o.buffer_size,
                   o.batch_size)},
      {feed != Feed::kRollout && o.buffer_size < learning_teams(o) * o.n_step,
       fmt::format("--buffer_size {} must hold the transitions of one step: {} that learn x --n_step {}",
                   o.buffer_size, core::counted(learning_teams(o), "team"), o.n_step)},
      {o.epsilon_min > o.epsilon,
       fmt::format("--epsilon_min {} is above --epsilon {}", o.epsilon_min, o.epsilon)},
      {o.eval_how && o.eval_interval == 0 && !o.league,
       "--eval_search needs evaluations or a league: set --eval_interval too"},
      {o.eval_how && o.obs_spec.tokens,
       "--eval_search is for networks that see features only: leave --tokens out"},
      {o.eval_how && o.reward_rule != game::RewardRule::kScore,
       fmt::format("--eval_search adds points to the network's values: it needs --reward score, not {}",
                   o.reward)},
      {o.eval_how && o.eval_how->limit_ms > 0,
       fmt::format("--eval_search {}: with a time limit, results would depend on the machine; give a number "
                   "of simulations, such as puct100",
                   o.eval_search)},
      {o.target_win_rate > 0 && o.eval_interval == 0,
       "--target_win_rate needs evaluations: set --eval_interval too"},
  };
  for (const Rule& rule : rules)
    if (rule.broken) throw core::UsageError(rule.message);
  if (!o.mix.empty()) game::boards_of(o.mix, o.num_envs);
  o.learner.check(learner_options(o, at::kCPU));
}

}  // namespace snake_ddp::train
