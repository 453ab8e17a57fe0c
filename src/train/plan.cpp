#include "train/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "dist/ranks.hpp"
#include "io/state_dict.hpp"
#include "learners/registry.hpp"
#include "rollout/board_graphs.hpp"
#include "snake_ddp/core/bf16.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/mirror.hpp"
#include "snake_ddp/game/snake_graph.hpp"
#include "snake_ddp/play/obs_spec.hpp"
#include "train/file_teams.hpp"
#include "weights.hpp"

namespace snake_ddp::train {
namespace {

TrainOptions used_of(const TrainOptions& given) {
  TrainOptions used = given, usual = usual_options(given.algo);
  const io::Fields flags = fields(used), defaults = fields(usual);
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (!io::is_used(flags[i], given.algo)) io::set(flags[i], io::value_of(defaults[i]));
  used.own_reward =
      given.own_reward;  // in a team's sum it only changes the last bits: earlier runs keep theirs
  return used;
}

constexpr const char* kAuto = "auto";

play::ObsSpec sight_from(const TrainOptions& o) {
  const auto kind = game::try_obs_kind(o.obs).value();  // one of the choices of its field
  return {.kind = kind, .view_radius = static_cast<int>(o.view_radius), .tokens = !o.tokens.empty()};
}

std::optional<play::SearchSpec> search_from(const std::string& text) {
  if (text.empty()) return {};
  const std::optional<play::SearchSpec> how = play::try_spec(text);
  if (!how) throw core::UsageError(fmt::format("--eval_search {}: not one of {}", text, play::kSpecForms));
  return how;
}

bool has_league(const game::Mix& mix) {
  return std::any_of(mix.begin(), mix.end(), [](const auto& share) { return share.league; });
}

}  // namespace

Plan::Plan(const TrainOptions& options)
    : TrainOptions(used_of(options)),
      learner(learners::find_learner(algo)),
      obs_spec(sight_from(*this)),
      reward_rule(game::try_reward_rule(reward).value()),
      head(nets::head_from_name(output_activation)),
      precision(nets::precision_from_name(products == kAuto ? "float32" : products)),
      curriculum(game::parse_curriculum(opponent_difficulty_strategy)),
      mix(game::parse_mix(opponent_mix)),
      eval_rival(game::try_opponent(eval_opponent).value()),
      eval_how(search_from(eval_search)),
      training{rival_reward, reward_scale, gamma},
      league(has_league(mix)),
      on_device(boards == "device"),
      records_updates(cuda_graph == "on"),
      keeps_replay(checkpoint_replay == "on") {}

std::int64_t vote_interval(const Plan& o) {
  const double updates_a_step = learns_from_rollouts(o)
                                    ? static_cast<double>(o.rollout_epochs * batches_per_epoch(o)) /
                                          static_cast<double>(o.rollout_steps)
                                    : o.updates_per_step * static_cast<double>(o.num_envs);
  const auto usual =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(20.0 / std::max(updates_a_step, 1.0)), 1, 20);
  if (o.local_updates == 0 || updates_a_step == 0) return usual;
  // A vote comes with an average of weights, which must not be more frequent than requested, unless updates are so rare that
  // stops and limits would wait for it.
  constexpr double kMost = 200;
  return std::max(usual, static_cast<std::int64_t>(std::min(
                             kMost, std::ceil(static_cast<double>(o.local_updates) / updates_a_step))));
}

std::int64_t batches_per_epoch(const Plan& o) { return o.rollout_steps * o.num_envs / o.batch_size; }

std::int64_t replay_capacity(const Plan& o) { return learns_from_rollouts(o) ? 1 : o.buffer_size; }

std::vector<game::Rival> rivals_of(const Plan& o, int rank, const League& league, std::int64_t steps) {
  std::vector<game::Rival> rivals;
  if (o.mix.empty()) return rivals;
  constexpr std::int64_t kMostSlots = 8;  // few: a network takes many boards at once in less time
  const std::uint64_t seed = static_cast<std::uint64_t>(o.seed) + static_cast<std::uint64_t>(rank),
                      deal = static_cast<std::uint64_t>(steps / game::kMaxSteps);
  const std::vector<std::int64_t> counts = game::boards_of(o.mix, o.num_envs);
  for (std::size_t k = 0; k < o.mix.size(); ++k) {
    const std::int64_t count = counts[k], slots = o.mix[k].league ? std::min(count, kMostSlots) : 1;
    std::vector<game::Rival> members(static_cast<std::size_t>(slots), o.mix[k].rival);
    for (std::int64_t slot = 0; o.mix[k].league && slot < slots; ++slot)
      members[static_cast<std::size_t>(slot)] =
          league.drawn(seed, deal * kMostSlots + static_cast<std::uint64_t>(slot));
    // One that was drawn twice has its boards side by side.
    std::sort(members.begin(), members.end(),
              [](const game::Rival& a, const game::Rival& b) { return game::code_of(a) < game::code_of(b); });
    for (std::int64_t b = 0; b < count; ++b)
      rivals.push_back(members[static_cast<std::size_t>(b * slots / count)]);
  }
  return rivals;
}

std::string boards_text(const Plan& o) {
  std::string text;
  if (o.mix.empty()) return text;
  const std::vector<std::int64_t> counts = game::boards_of(o.mix, o.num_envs);
  for (std::size_t k = 0; k < counts.size(); ++k)
    text += fmt::format("{}{} {}", k == 0 ? "" : ", ", game::name(o.mix[k]), counts[k]);
  return text;
}

std::int64_t learning_teams(const Plan& o) {
  std::int64_t teams = o.num_envs;
  if (o.mix.empty()) return teams;
  const std::vector<std::int64_t> counts = game::boards_of(o.mix, o.num_envs);
  for (std::size_t k = 0; k < counts.size(); ++k)
    if (o.mix[k].rival.is_self() && !o.mix[k].league) teams += counts[k];
  return teams;
}

double rate_factor(const Plan& o, std::int64_t steps, std::int64_t board_steps) {
  const double played = static_cast<double>(steps * o.num_envs) / static_cast<double>(o.episode_length);
  const double share = o.total_steps > 0
                           ? static_cast<double>(board_steps) / static_cast<double>(o.total_steps)
                           : played / static_cast<double>(o.max_episodes);
  const double progress = std::min(1.0, share);
  return 1.0 - (1.0 - o.lr_end) * progress;
}

TrainOptions chosen(const TrainOptions& options, const Machine& machine) {
  // A step of the boards takes a GPU as long for one as for thousands; main memory takes as long for some dozens.
  constexpr std::int64_t kManyBoards = 64;
  const Plan o(options);
  const learners::LearnerEntry& learner = o.learner;
  const bool gpu = machine.device.is_cuda();
  TrainOptions c = options;
  const auto choose = [](std::string& setting, bool condition, const char* then, const char* otherwise) {
    if (setting == kAuto) setting = condition ? then : otherwise;
  };
  choose(c.boards, gpu && learner.device_boards && o.num_envs >= kManyBoards && o.record_interval == 0,
         "device", "host");
  choose(c.cuda_graph,
         gpu && learner.cuda_graphs && o.tokens.empty() && o.local_updates == 0 && machine.backend != "gloo",
         "on", "off");
  choose(c.products, learner.low_precision && (gpu || (machine.bf16 && !learner.actor)),
         gpu ? "tf32" : "bf16", "float32");
  return c;
}

std::string choices_text(const TrainOptions& options, const TrainOptions& chosen) {
  TrainOptions before = options, after = chosen;
  const io::Fields were = fields(before), are = fields(after);
  std::string text;
  for (std::size_t i = 0; i < are.size(); ++i)
    if (io::is_used(are[i], chosen.algo) && io::value_of(were[i]) != io::value_of(are[i]))
      text += fmt::format("{}--{} {}", text.empty() ? "" : " ", are[i].name, io::value_text(are[i]));
  return text;
}

void check_products(const Plan& o, at::Device device) {
  if (o.precision == nets::Precision::kTf32 && device.is_cpu())
    throw core::UsageError("--products tf32 is for GPUs, and this run is on the CPU");
  if (o.precision == nets::Precision::kBf16 && !device.is_cpu())
    throw core::UsageError("--products bf16 is for CPUs, and this run is on a GPU: use tf32");
  if (o.precision == nets::Precision::kBf16) core::require_bf16();
}

Machine check_start(const Plan& o, const dist::World& world, int gpus) {
  dist::Options asked;
  asked.backend = o.dist_backend;
  asked.device = o.device;
  const dist::Placement placement = dist::choose_placement(world, asked, gpus);
  check_products(o, placement.device);
  if (o.records_updates && placement.device.is_cuda() && placement.backend == "gloo")
    throw core::UsageError(
        "--cuda_graph on: gradients averaged through Gloo cannot be recorded; use --dist_backend nccl, "
        "with a GPU for each rank, or --cuda_graph off");
  if (!o.tokens.empty()) token_source(o.tokens, o.obs_spec.view_radius, at::kCPU);
  FileTeams{o};  // reads and checks them
  const bool may_go_on = o.resume != "never" && (!o.resume.empty() || world.torchrun);
  if (!may_go_on) weights_to_load(o);  // looks for them
  return {placement.device, placement.backend, core::fastest_bf16() != core::Bf16By::kFloats};
}

learners::LearnerOptions learner_options(const Plan& o, at::Device device) {
  learners::LearnerOptions l;
  static_cast<learners::LearnerFlags&>(l) = o;
  l.algo = o.algo;
  l.features = game::obs_size(o.obs_spec.kind);  // --tokens adds its own
  if (o.mirror_symmetric) l.mirror = game::mirror_of(o.obs_spec.kind);
  l.seed = static_cast<std::uint64_t>(o.seed);
  l.device = device;
  return l;
}

rollout::RolloutOptions rollout_options(const Plan& o, int rank) {
  SD_CHECK(learns_from_rollouts(o), "only learners with rollouts have their batches, not " + o.algo);
  return {o.rollout_steps, o.rollout_epochs, batches_per_epoch(o), o.td_lambda,
          static_cast<std::uint64_t>(o.seed) + static_cast<std::uint64_t>(rank)};
}

LeagueOptions league_options(const Plan& o, const FileTeams* files, at::Device device) {
  if (!o.league) return {};
  std::vector<game::Opponent> scripted;
  for (const game::Share& share : o.mix)
    if (share.rival.scripted) scripted.push_back(*share.rival.scripted);
  if (scripted.empty()) scripted.push_back(game::Opponent::kLevel2);  // a league needs a first member
  return {.scripted = scripted,
          .files = files,
          .games = o.league_games,
          .entry = o.league_win_rate,
          .seed = static_cast<std::uint64_t>(o.seed),
          .obs_spec = o.obs_spec,
          .head = o.head,
          .mask_fatal = o.mask_fatal,
          .search = o.eval_how,
          .training = o.training,
          .device = device};
}

rollout::CollectorOptions collector_options(const Plan& o, int rank, const League& league,
                                            const FileTeams& files, std::int64_t memory) {
  const std::uint64_t seed = static_cast<std::uint64_t>(o.seed) + static_cast<std::uint64_t>(rank);
  rollout::CollectorOptions c{{.obs_spec = o.obs_spec,
                               .reward = o.reward_rule,
                               .reward_scale = o.reward_scale,
                               .own_reward = o.own_reward,
                               .rival_reward = o.rival_reward,
                               .random_low = o.head == nets::Head::kTanh ? -1.0 : 0.0,
                               .gamma = o.gamma,
                               .mask_fatal = o.mask_fatal,
                               .store_played = o.expected_value,
                               .n_step = o.n_step,
                               .episode_length = o.episode_length,
                               .seed = seed}};
  c.num_envs = o.num_envs;
  c.epsilon = o.epsilon;
  c.epsilon_speed = o.epsilon_speed;
  c.epsilon_min = o.epsilon_min;
  c.rivals = rivals_of(o, rank, league, 0);
  if (o.mix.empty())
    c.schedule = game::plan_of_schedule(
        [&](std::int64_t episode) {
          return game::opponent_at(o.curriculum, episode, o.max_episodes, o.enable_opponent_evasion,
                                   o.opponent_evasion_start_episode);
        },
        o.max_episodes);
  c.frozen = [&league, &files](int place) {
    return place < game::Rival::kFirstFile ? league.frozen(place) : files.frozen(place);
  };
  c.memory = memory;
  return c;
}

learners::TokenSource token_source(const std::string& folder, int view_radius, at::Device device) {
  const std::string tokenizer = folder + "/tokenizer_best.pth",
                    predictor = folder + "/mask_predictor_best.pth";
  nets::FrozenTokenizer first = nets::frozen_tokenizer(io::load_state_dict(tokenizer), device, tokenizer);
  nets::TokenReader reader(std::move(first),
                           nets::frozen_mask_predictor(io::load_state_dict(predictor), device, predictor),
                           folder);
  if (reader.graph_floats() != game::kGraphsFloats)
    throw core::FileError(folder + ": made for graphs of another version: run pretrain again");
  return {std::move(reader), play::kBoardFloats,
          [view_radius](const at::Tensor& boards) { return rollout::board_graphs(view_radius, boards); }};
}

}  // namespace snake_ddp::train
