#include "snake_ddp/train/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "device_loop.hpp"
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

constexpr double kMany = 1e15;

std::vector<std::string> learner_names() {
  std::vector<std::string> names;
  for (const learners::LearnerEntry& entry : learners::registry()) names.push_back(entry.name);
  return names;
}

}  // namespace

config::Fields fields(TrainOptions& o) {
  return {
      text("game_name", &o.game_name, "game; run folders are grouped under it", {"snakes_3v3"}),
      text("algo", &o.algo, "learner", learner_names()),
      number("max_episodes", &o.max_episodes, "episodes that each rank plays", 1, kMany),
      number("episode_length", &o.episode_length,
             "steps after which a game is cut off; the game itself ends at 200", 1, 200),
      text("output_activation", &o.output_activation, "last layer of the actor", {"softmax", "tanh"}),
      number("buffer_size", &o.buffer_size, "transitions that each rank's replay holds", 1, 4e9),
      number("tau", &o.tau, "Polyak step of the target networks", 0, 1),
      number("gamma", &o.gamma, "discount of one step", 0, 1),
      number("seed", &o.seed, "of the weights on all ranks; of a rank's experience with its rank added", 0,
             4e18),
      number("a_lr", &o.a_lr, "learning rate of the actor", 0, 1),
      number("c_lr", &o.c_lr, "learning rate of the critic", 0, 1),
      number("batch_size", &o.batch_size, "transitions of a rank's batch, three rows each", 1, 1e7),
      number("epsilon", &o.epsilon, "share of explored choices at the start", 0, 1),
      number("epsilon_speed", &o.epsilon_speed, "factor on epsilon at every choice", 0, 1),
      number("save_interval", &o.save_interval, "episodes between two saved actors and critics", 1, kMany),
      number("model_episode", &o.model_episode, "number of the episode before the first", 0, kMany),
      text("log_dir", &o.log_dir, "kept in config.json; run folders name themselves"),
      text("opponent_difficulty_strategy", &o.opponent_difficulty_strategy,
           fmt::format("curriculum, linear, exponential, or fixed:LEVEL with {}",
                       fmt::join(agents::fixed_levels(), ", "))),
      flag("enable_opponent_evasion", &o.enable_opponent_evasion,
           "from its start episode on the opponent evades"),
      number("opponent_evasion_start_episode", &o.opponent_evasion_start_episode, "its start episode", 0,
             kMany),
      flag("load_model", &o.load_model, "start from a saved actor and critic"),
      number("load_model_run", &o.load_model_run, "number of the run to load from", 0, kMany),
      number("load_model_run_episode", &o.load_model_run_episode, "episode to load", 0, kMany),
      number("local_rank", &o.local_rank, "ignored: LOCAL_RANK decides", 0, kMany),
      text("runs_dir", &o.runs_dir, "run folders go to <runs_dir>/<game_name>/"),
      text("obs", &o.obs, "features a snake sees", {"26", "30", "window", "view"}),
      text("reward", &o.reward, "rule that shapes rewards; score is the game's own",
           {"2021", "v1_1", "v1_2", "score"}),
      number("num_envs", &o.num_envs, "boards of a rank, stepped together", 1, 1e6),
      number("updates_per_step", &o.updates_per_step,
             "learner updates for each step of one board; may be below 1", 0, 1000),
      number("hidden_size", &o.hidden_size, "width of the hidden layers", 1, 65536),
      text("lr_scaling", &o.lr_scaling, "factor on the learning rates in the world size",
           {"none", "linear", "sqrt"}),
      text("device", &o.device, "where the learner computes", {"auto", "cpu", "cuda"}),
      text("boards", &o.boards,
           "where games are played and replay is: in main memory, or beside the learner on its device",
           {"host", "device"}),
      text("cuda_graph", &o.cuda_graph, "record updates on a GPU as CUDA graphs; off is the plain way",
           {"on", "off"}),
      text("overlap", &o.overlap,
           "draw a step's first batch before the boards move, and learn from it while they do",
           {"on", "off"}),
      text("products", &o.products, "precision of a GPU's matrix products", {"float32", "tf32", "bf16"}),
      text("dist_backend", &o.dist_backend, "what ranks talk through", {"auto", "nccl", "gloo"}),
      flag("shared_memory", &o.shared_memory,
           "CPU ranks of one machine sum through shared memory; off: through Gloo"),
      number("dist_timeout", &o.dist_timeout, "seconds until a collective without an answer ends the run",
             0.1, 1e6),
      number("join_timeout", &o.join_timeout, "seconds that ranks wait for each other at the start", 0.1,
             1e6),
      number("eval_interval", &o.eval_interval,
             "episodes between two evaluations, shared by all ranks; 0: none", 0, kMany),
      number("eval_games", &o.eval_games, "games of an evaluation", 1, 1e9),
      text("eval_opponent", &o.eval_opponent, "who the actor is judged against", agents::opponent_names()),
      number("target_win_rate", &o.target_win_rate, "stop when an evaluation reaches it; 0: never", 0, 1),
      number("record_interval", &o.record_interval,
             "episodes between two game logs of rank 0's first board in games/; 0: none", 0, kMany),
      number("check_consistency", &o.check_consistency,
             "updates between two comparisons of all ranks' weights; 0: never", 0, kMany),
      number("threads", &o.threads,
             "of LibTorch's products; 0: cores / ranks on this machine. DDPG on the CPU uses one", 0, 4096),
      flag("log_every_episode", &o.log_every_episode, "a console block for each episode, not one a second"),
      number("checkpoint_interval", &o.checkpoint_interval,
             "episodes between two checkpoints of the full state; 0: none", 0, kMany),
      number("keep_checkpoints", &o.keep_checkpoints, "checkpoints that are kept", 1, 1e6),
      text("checkpoint_replay", &o.checkpoint_replay, "whether they hold replay", {"on", "off"}),
      text("resume", &o.resume,
           "auto, never, or the folder of a run to go on with; without it auto where torchrun starts ranks "
           "anew, else never"),
      number("n_step", &o.n_step, "rewards summed before bootstrapping", 1, 200),
      number("rollout_steps", &o.rollout_steps, "pqn: steps of each board that are played and learned from",
             1, 1e6),
      number("rollout_epochs", &o.rollout_epochs, "pqn: how often each of their transitions is learned from",
             1, 1000),
      number("td_lambda", &o.td_lambda, "pqn: weight of longer returns; 0: one step, 1: as far as was played",
             0, 1),
      number("sequence_length", &o.sequence_length, "rqmix: consecutive transitions of a window", 1, 200),
      number("burn_in", &o.burn_in, "rqmix: of them, the first ones that only fill the memory", 0, 199),
      flag("scale_features", &o.scale_features,
           "learn on features scaled to about -1..1; saved files read raw features"),
      number("reward_scale", &o.reward_scale, "factor on shaped rewards", 1e-6, 1e6),
      flag("layer_norm", &o.layer_norm, "layer norm in the critic, or in the Q-network"),
      number("epsilon_min", &o.epsilon_min,
             "above 0: epsilon stays, spread over the boards in a geometric ladder from this to --epsilon", 0,
             1),
      text("stored_action", &o.stored_action,
           "what replay holds: the actor's output, or the played move as one-hot", {"output", "played"}),
      flag("expected_value", &o.expected_value,
           "value an actor's output by the expectation over its moves; needs --stored_action played"),
      number("actor_interval", &o.actor_interval, "critic updates for each update of actor and targets", 1,
             1000),
      flag("clipped_double_critics", &o.clipped_double_critics,
           "two critics; the bootstrapped value is the lesser of both"),
      flag("coalesced_update", &o.coalesced_update,
           "the actor's gradient from the critic before its step: one all-reduce an update instead of two"),
      number("max_minutes", &o.max_minutes,
             "stop after so much time, as if the episodes were used up; 0: no limit", 0, 1e6),
      text(
          "opponent_mix", &o.opponent_mix,
          "opponents drawn for each game in place of a schedule: scripted ones, self and league, for example "
          "level2:0.7,self:0.3"),
      number("league_interval", &o.league_interval,
             "episodes between two judgements of the learner against its league, where the mix has one", 1,
             kMany),
      number("league_games", &o.league_games, "games of a judgement, shared among the members", 100, 1e9),
      number("league_win_rate", &o.league_win_rate,
             "share of them that the learner must win for a frozen copy of it to become a member", 0, 1),
      flag("mask_fatal", &o.mask_fatal,
           "no snake makes a move that is certain death, nor tries to turn back"),
      number("lr_end", &o.lr_end,
             "learning rates fall linearly over max_episodes to this share of what they are", 0, 1),
      number("max_grad_norm", &o.max_grad_norm, "gradients longer than this are shortened to it", 1e-6, 1e9),
      number("own_reward", &o.own_reward, "a snake's share of its own reward; the rest is its team's mean", 0,
             1),
      number("rival_reward", &o.rival_reward,
             "factor on the opponents' mean game reward, which is taken off a snake's", 0, 10),
      number("view_radius", &o.view_radius,
             "above 0, with --obs window: cells farther than this from a snake's head are hidden from it; at "
             "least 3",
             0, 10),
      text("tokens", &o.tokens,
           "folder of snake_ddp pretrain: snakes are told the tokens of those that they see, and predicted "
           "ones of the others"),
  };
}

void check_together(const TrainOptions& o) {
  agents::parse_curriculum(o.opponent_difficulty_strategy);
  agents::parse_mix(o.opponent_mix);
  if (o.scale_features && (o.obs == "window" || o.obs == "view"))
    throw base::UsageError("--scale_features is for --obs 26 and 30: the view is scaled as it is");
  if (o.scale_features && o.algo != "ddpg" && o.algo != "bicnet") {
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
    if (o.algo != "dqn" && o.algo != "vdn" && o.algo != "qmix")
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
  const std::string_view dense[] = {"ddpg", "dqn", "vdn", "qmix"};
  const bool is_dense = std::find(std::begin(dense), std::end(dense), o.algo) != std::end(dense);
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
