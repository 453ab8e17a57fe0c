#include "snake_ddp/train/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "arena.hpp"
#include "setup.hpp"
#include "snake_ddp/agents/curriculum.hpp"
#include "snake_ddp/agents/mix.hpp"
#include "snake_ddp/agents/opponents.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/encode/hidden_view.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/train/run.hpp"

namespace snake_ddp::train {

namespace {

using learners::Feed;
using Names = std::vector<std::string>;

Names fed_by(std::initializer_list<Feed> feeds) {
  Names names;
  for (const learners::LearnerEntry& entry : learners::registry()) {
    if (std::find(feeds.begin(), feeds.end(), entry.feed) != feeds.end()) names.push_back(entry.name);
  }
  return names;
}

// Learners by what they have. Flags name the learners that read them by these lists.
struct LearnersWith {
  Names an_actor = {"ddpg", "bicnet"};
  Names dense_nets = {"ddpg", "dqn", "vdn",
                      "qmix"};  // with our own passes: layer norm, CUDA graphs, precision
  Names token_inputs = {"dqn", "vdn", "qmix"};
  Names single_steps = fed_by({Feed::kReplay});
  Names replay = fed_by({Feed::kReplay, Feed::kWindows});
  Names windows = fed_by({Feed::kWindows});
  Names rollouts = fed_by({Feed::kRollout});
};

const LearnersWith& learners_with() {
  static const LearnersWith lists;
  return lists;
}

bool among(const std::string& name, const Names& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

config::Field flag(std::string name, bool* target, std::string help) {
  config::Field field;
  field.name = std::move(name);
  field.target = target;
  field.help = std::move(help);
  return field;
}

config::Field text(std::string name, std::string* target, std::string help,
                   std::vector<std::string> choices = {}) {
  config::Field field;
  field.name = std::move(name);
  field.target = target;
  field.help = std::move(help);
  field.choices = std::move(choices);
  return field;
}

template <class Number>
config::Field number(std::string name, Number* target, std::string help, double least, double most) {
  return {std::move(name), target, std::move(help), least, most, {}};
}

config::Field only(const Names& learners, config::Field field) {
  field.used_by = learners;
  return field;
}

void add(config::Fields& all, const std::string& group, config::Fields fields) {
  for (config::Field& field : fields) {
    field.group = group;
    all.push_back(std::move(field));
  }
}

constexpr double kMany = 1e15;

std::vector<std::string> learner_names() {
  std::vector<std::string> names;
  for (const learners::LearnerEntry& entry : learners::registry()) names.push_back(entry.name);
  return names;
}

}  // namespace

config::Fields fields(TrainOptions& o) {
  const LearnersWith& with = learners_with();
  const Names ddpg = {"ddpg"};
  config::Fields all;
  add(all, "As in the Python trainer",
      {
          text("game_name", &o.game_name, "the game; run folders are grouped under it", {"snakes_3v3"}),
          text("algo", &o.algo, "the learner", learner_names()),
          number("max_episodes", &o.max_episodes, "episodes that each rank plays", 1, kMany),
          number("episode_length", &o.episode_length,
                 "steps after which a game is cut off; a whole game has 200", 1, 200),
          only(with.an_actor, text("output_activation", &o.output_activation, "last layer of the actor",
                                   {"softmax", "tanh"})),
          only(with.replay, number("buffer_size", &o.buffer_size,
                                   "capacity of each rank's replay buffer, in transitions", 1, 4e9)),
          only(with.replay, number("tau", &o.tau, "Polyak averaging rate of the target networks", 0, 1)),
          number("gamma", &o.gamma, "discount factor per step", 0, 1),
          number("seed", &o.seed,
                 "seed of the weights, equal on all ranks, and, plus the rank, of what a rank plays", 0,
                 4e18),
          only(with.an_actor, number("a_lr", &o.a_lr, "learning rate of the actor", 0, 1)),
          number("c_lr", &o.c_lr, "learning rate of the critic or Q-network", 0, 1),
          number("batch_size", &o.batch_size, "transitions in each rank's batch, three rows each", 1, 1e7),
          number("epsilon", &o.epsilon, "exploration rate at the start", 0, 1),
          number("epsilon_speed", &o.epsilon_speed, "factor on epsilon after every decision", 0, 1),
          number("save_interval", &o.save_interval, "episodes between saves of actor and critic", 1, kMany),
          number("model_episode", &o.model_episode, "added to the episode numbers in file names", 0, kMany),
          text("log_dir", &o.log_dir, "kept in config.json, otherwise unused"),
          text("opponent_difficulty_strategy", &o.opponent_difficulty_strategy,
               fmt::format("how the opponent gets harder: curriculum, linear, exponential, or fixed:LEVEL, "
                           "where LEVEL is one of {}",
                           fmt::join(agents::fixed_levels(), ", "))),
          flag("enable_opponent_evasion", &o.enable_opponent_evasion,
               "play the evasion opponent from --opponent_evasion_start_episode on"),
          number("opponent_evasion_start_episode", &o.opponent_evasion_start_episode,
                 "first episode against the evasion opponent", 0, kMany),
          flag("load_model", &o.load_model, "start from a saved actor and critic"),
          number("load_model_run", &o.load_model_run, "number of the run to load from", 0, kMany),
          number("load_model_run_episode", &o.load_model_run_episode, "episode to load", 0, kMany),
          number("local_rank", &o.local_rank, "ignored: the variable LOCAL_RANK decides", 0, kMany),
      });
  add(all, "Running",
      {
          number("max_minutes", &o.max_minutes,
                 "stop after this many minutes, as if the episodes were used up; 0: no limit", 0, 1e6),
          number("eval_interval", &o.eval_interval,
                 "episodes between evaluations, whose games all ranks share; 0: none", 0, kMany),
          number("eval_games", &o.eval_games, "games per evaluation", 1, 1e9),
          text("eval_opponent", &o.eval_opponent, "opponent in evaluations", agents::opponent_names()),
          number("target_win_rate", &o.target_win_rate,
                 "stop when an evaluation reaches this win rate; 0: never", 0, 1),
          number("check_consistency", &o.check_consistency,
                 "updates between comparisons of all ranks' weights; 0: never", 0, kMany),
          flag("log_every_episode", &o.log_every_episode,
               "print every episode, instead of at most one a second"),
      });
  add(all, "Learning",
      {
          text("obs", &o.obs, "what a snake observes", {"26", "30", "window", "view"}),
          text("reward", &o.reward, "reward shaping; score is the game's own reward",
               {"2021", "v1_1", "v1_2", "score"}),
          number("reward_scale", &o.reward_scale, "factor on shaped rewards", 1e-6, 1e6),
          number("own_reward", &o.own_reward, "weight of a snake's own reward; the rest is its team's mean",
                 0, 1),
          number("rival_reward", &o.rival_reward,
                 "weight of the opponents' mean game reward, which is subtracted", 0, 10),
          number("num_envs", &o.num_envs, "boards per rank, stepped together", 1, 1e6),
          only(with.replay, number("updates_per_step", &o.updates_per_step,
                                   "learner updates per step of one board; may be below 1", 0, 1000)),
          number("hidden_size", &o.hidden_size, "width of the hidden layers", 1, 65536),
          text("lr_scaling", &o.lr_scaling, "how learning rates grow with the world size",
               {"none", "linear", "sqrt"}),
          number("lr_end", &o.lr_end,
                 "learning rates fall linearly over max_episodes to this fraction of their start", 0, 1),
          number("max_grad_norm", &o.max_grad_norm, "gradients are clipped to this norm", 1e-6, 1e9),
          number("epsilon_min", &o.epsilon_min,
                 "above 0: epsilon does not decay; the boards have fixed values between this and --epsilon, "
                 "spaced geometrically",
                 0, 1),
          flag("mask_fatal", &o.mask_fatal, "rule out moves that are certain death, and turning back"),
          only(with.single_steps, number("n_step", &o.n_step, "rewards summed before bootstrapping", 1, 200)),
          only(with.rollouts,
               number("rollout_steps", &o.rollout_steps, "steps of each board in a rollout", 1, 1e6)),
          only(with.rollouts,
               number("rollout_epochs", &o.rollout_epochs, "passes over each rollout", 1, 1000)),
          only(with.rollouts,
               number("td_lambda", &o.td_lambda,
                      "lambda of the returns; 0: one step, 1: up to the end of the rollout", 0, 1)),
          only(with.windows,
               number("sequence_length", &o.sequence_length, "consecutive transitions in a window", 1, 200)),
          only(with.windows,
               number("burn_in", &o.burn_in,
                      "transitions at the start of each window that only warm up the memory", 0, 199)),
          only(with.an_actor, flag("scale_features", &o.scale_features,
                                   "train on features scaled to about -1..1; saved files take raw features")),
          only(with.dense_nets, flag("layer_norm", &o.layer_norm, "layer norm in the critic or Q-network")),
          only(with.an_actor,
               text("stored_action", &o.stored_action,
                    "action kept in replay: the actor's output, or the move that was played, one-hot",
                    {"output", "played"})),
          only(ddpg, flag("expected_value", &o.expected_value,
                          "value an actor's output by the expectation over its moves; needs "
                          "--stored_action played")),
          only(with.an_actor, number("actor_interval", &o.actor_interval,
                                     "critic updates per update of actor and targets", 1, 1000)),
          only(ddpg, flag("clipped_double_critics", &o.clipped_double_critics,
                          "two critics; targets use the smaller of their values")),
          only(ddpg, flag("coalesced_update", &o.coalesced_update,
                          "compute the actor's gradient before the critic's step: one all-reduce per update "
                          "instead of two")),
          number("view_radius", &o.view_radius,
                 "with --obs window: hide cells farther than this from a snake's head, at least 3; 0: none",
                 0, 10),
          only(with.token_inputs,
               text("tokens", &o.tokens,
                    "folder that snake_ddp pretrain wrote: add tokens of the snakes in view, and predicted "
                    "tokens of the others, to the observation")),
      });
  add(all, "Opponents",
      {
          text("opponent_mix", &o.opponent_mix,
               "draw each game's opponent from this mix, instead of the schedule: scripted ones, self and "
               "league, for example level2:0.7,self:0.3"),
          number("league_interval", &o.league_interval,
                 "episodes between matches of the learner against its league", 1, kMany),
          number("league_games", &o.league_games, "games per match, shared among the members", 100, 1e9),
          number("league_win_rate", &o.league_win_rate,
                 "win rate in a match at which a frozen copy of the learner joins the league", 0, 1),
      });
  add(all, "Saving",
      {
          text("runs_dir", &o.runs_dir, "run folders are made in <runs_dir>/<game_name>/"),
          number("checkpoint_interval", &o.checkpoint_interval,
                 "episodes between checkpoints of the full training state; 0: none", 0, kMany),
          number("keep_checkpoints", &o.keep_checkpoints, "number of checkpoints to keep", 1, 1e6),
          text("checkpoint_replay", &o.checkpoint_replay, "save replay with each checkpoint", {"on", "off"}),
          text("resume", &o.resume,
               "auto, never, or the folder of a run, or of one of its checkpoints, to continue; by default "
               "auto "
               "after a restart by torchrun, else never"),
          number("record_interval", &o.record_interval,
                 "episodes between game logs of rank 0's first board, written to games/; 0: none", 0, kMany),
      });
  add(all, "This machine",
      {
          text("device", &o.device, "where the networks run", {"auto", "cpu", "cuda"}),
          only(with.single_steps,
               text("boards", &o.boards,
                    "where games are played and replay is kept: main memory, or the device of the networks",
                    {"host", "device"})),
          only(with.dense_nets,
               text("cuda_graph", &o.cuda_graph, "record updates on a GPU as CUDA graphs", {"on", "off"})),
          only(with.replay, text("overlap", &o.overlap,
                                 "draw a step's first batch before the boards move, and learn from it "
                                 "meanwhile",
                                 {"on", "off"})),
          only(with.dense_nets, text("products", &o.products, "precision of matrix products on a GPU",
                                     {"float32", "tf32", "bf16"})),
          number("threads", &o.threads,
                 "threads of LibTorch's matrix products; 0: cores / ranks on this machine. DDPG on the CPU "
                 "uses one",
                 0, 4096),
          text("dist_backend", &o.dist_backend, "communication between ranks", {"auto", "nccl", "gloo"}),
          flag("shared_memory", &o.shared_memory,
               "CPU ranks on one machine sum through shared memory; off: through Gloo"),
          number("dist_timeout", &o.dist_timeout,
                 "seconds that a collective may take; after that the run ends with an error", 0.1, 1e6),
          number("join_timeout", &o.join_timeout, "seconds that ranks wait for each other at the start", 0.1,
                 1e6),
      });
  return all;
}

void check_together(const TrainOptions& o) {
  agents::parse_curriculum(o.opponent_difficulty_strategy);
  agents::parse_mix(o.opponent_mix);
  if (o.scale_features && (o.obs == "window" || o.obs == "view"))
    throw base::UsageError("--scale_features is for --obs 26 and 30: the view is scaled as it is");
  if (o.scale_features && !among(o.algo, learners_with().an_actor)) {
    throw base::UsageError(fmt::format(
        "--scale_features is for actors and critics: --algo {} learns best with --obs view", o.algo));
  }
  if (o.view_radius > 0 && (o.obs != "window" || o.view_radius < encode::kLeastRadius)) {
    throw base::UsageError(
        fmt::format("--view_radius {} needs --obs window, and at least {}, what the window itself shows",
                    o.view_radius, encode::kLeastRadius));
  }
  if (!o.tokens.empty()) {
    if (o.view_radius == 0)
      throw base::UsageError("--tokens is for a limited view: set --view_radius and --obs window");
    if (!among(o.algo, learners_with().token_inputs))
      throw base::UsageError(fmt::format("--tokens is for --algo qmix, vdn and dqn, not for {}", o.algo));
    const agents::Mix mix = agents::parse_mix(o.opponent_mix);
    if (std::any_of(mix.begin(), mix.end(), [](const auto& share) { return share.league; }))
      throw base::UsageError("--tokens has no league: its frozen copies would need the tokens, too");
  }
  if (o.boards == "device") {
    opponent_plan(o, 0);
    if (learns_from_windows(o) || learns_from_rollouts(o))
      throw base::UsageError(fmt::format("--boards device is not for --algo {}, not yet", o.algo));
    if (o.record_interval > 0)
      throw base::UsageError("--record_interval is for --boards host: a device's games are not watched");
    if (o.buffer_size < o.num_envs * o.n_step)
      throw base::UsageError(fmt::format(
          "--boards device: --buffer_size {} must hold what one step may bring, --num_envs {} x --n_step {}",
          o.buffer_size, o.num_envs, o.n_step));
  }
  const Names& dense = learners_with().dense_nets;
  const bool is_dense = among(o.algo, dense);
  if (o.cuda_graph == "on" && (!is_dense || !o.tokens.empty()))
    throw base::UsageError(fmt::format("--cuda_graph on is for --algo {} without --tokens; this is {}{}",
                                       fmt::join(dense, ", "), o.algo, o.tokens.empty() ? "" : " with them"));
  if (o.products != "float32" && !is_dense)
    throw base::UsageError(fmt::format("--products {} is for --algo {}, not for {}", o.products,
                                       fmt::join(dense, ", "), o.algo));
  if (o.overlap == "on" && learns_from_rollouts(o))
    throw base::UsageError(
        fmt::format("--overlap on is for learners that draw from replay; {} does not", o.algo));
  learners::check_options(learner_options(o, 1, at::kCPU));
  if (learns_from_windows(o)) {
    if (o.n_step != 1)
      throw base::UsageError(
          fmt::format("--n_step {} is not for --algo {}, which learns from consecutive steps: leave it out",
                      o.n_step, o.algo));
    if (o.batch_size < o.sequence_length)
      throw base::UsageError(
          fmt::format("--batch_size {} is smaller than --sequence_length {}: there would be no window in it",
                      o.batch_size, o.sequence_length));
  }
  if (learns_from_rollouts(o)) {
    if (o.n_step != 1)
      throw base::UsageError(fmt::format(
          "--n_step {} is not for --algo {}, whose returns are as long as --td_lambda says: leave it out",
          o.n_step, o.algo));
    if (o.rollout_steps * o.num_envs < o.batch_size)
      throw base::UsageError(fmt::format(
          "--rollout_steps {} on --num_envs {} give {} transitions, less than --batch_size {}: no "
          "batch could ever be made; raise either, or lower --batch_size",
          o.rollout_steps, o.num_envs, o.rollout_steps * o.num_envs, o.batch_size));
  } else if (o.buffer_size < o.batch_size) {
    throw base::UsageError(
        fmt::format("--buffer_size {} is smaller than --batch_size {}: no batch could ever be drawn",
                    o.buffer_size, o.batch_size));
  }
  if (o.epsilon_min > o.epsilon) {
    throw base::UsageError(fmt::format("--epsilon_min {} is above --epsilon {}", o.epsilon_min, o.epsilon));
  }
  if (o.expected_value && (o.stored_action != "played" || o.output_activation != "softmax")) {
    throw base::UsageError("--expected_value needs --stored_action played and --output_activation softmax");
  }
  if (o.target_win_rate > 0 && o.eval_interval == 0) {
    throw base::UsageError("--target_win_rate needs evaluations: set --eval_interval too");
  }
}

}  // namespace snake_ddp::train
