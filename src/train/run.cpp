#include "snake_ddp/train/run.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/headeronly/version.h>
#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "snake_ddp/agents/curriculum.hpp"
#include "snake_ddp/base/host.hpp"
#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/dist/watchdog.hpp"
#include "snake_ddp/io/atomic_file.hpp"
#include "snake_ddp/io/run_folder.hpp"
#include "snake_ddp/io/state_dict.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/replay/buffer.hpp"
#include "snake_ddp/rollout/collector.hpp"
#include "snake_ddp/train/judge.hpp"
#include "snake_ddp/train/recorder.hpp"
#include "snake_ddp/train/reporter.hpp"
#include "snake_ddp/train/signals.hpp"

namespace snake_ddp::train {
namespace {

using Clock = std::chrono::steady_clock;

// All ranks talk about the run's course once in so many steps of their boards: about 20 updates, which is soon enough
// for a stop and seldom enough to cost nothing. It follows from the settings alone, so that each rank enters the same
// collectives in the same order.
std::int64_t vote_interval(const TrainOptions& o) {
  const double updates_a_step = o.updates_per_step * static_cast<double>(o.num_envs);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(20.0 / std::max(updates_a_step, 1.0)), 1, 20);
}

std::chrono::milliseconds seconds_to_ms(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

double scaled_rate(const TrainOptions& o, double rate, int ranks) {
  if (o.lr_scaling == "linear") return rate * ranks;
  if (o.lr_scaling == "sqrt") return rate * std::sqrt(ranks);
  return rate;
}

rollout::Sight sight_of(const TrainOptions& o) {
  const auto kind = o.obs == "26" ? encode::ObsKind::k26 : encode::ObsKind::k30;
  return {kind, o.scale_features ? encode::feature_scaling(kind) : encode::no_scaling()};
}

rollout::CollectorOptions collector_options(const TrainOptions& o, int rank) {
  const agents::Curriculum curriculum = agents::parse_curriculum(o.opponent_difficulty_strategy);
  rollout::CollectorOptions c;
  c.num_envs = o.num_envs;
  c.episode_length = o.episode_length;
  c.sight = sight_of(o);
  c.reward = encode::try_reward_rule(o.reward).value();  // one of the choices of its field
  c.reward_scale = o.reward_scale;
  c.epsilon = o.epsilon;
  c.epsilon_speed = o.epsilon_speed;
  c.epsilon_min = o.epsilon_min;
  c.random_low = o.output_activation == "tanh" ? -1.0 : 0.0;
  c.store_played = o.stored_action == "played";
  c.n_step = o.n_step;
  c.gamma = o.gamma;
  c.seed = static_cast<std::uint64_t>(o.seed) + static_cast<std::uint64_t>(rank);
  c.opponent = [o, curriculum](std::int64_t episode) {
    return agents::opponent_at(curriculum, std::min(episode, o.max_episodes), o.max_episodes,
                               o.enable_opponent_evasion, o.opponent_evasion_start_episode);
  };
  return c;
}

// Weights as files have them read raw features, whatever the learner saw.
struct FeatureMap {
  bool scaled;
  at::Tensor shift, scale;

  explicit FeatureMap(const TrainOptions& o) : scaled(o.scale_features) {
    const rollout::Sight sight = sight_of(o);
    encode::Scaling s = sight.scaling;
    shift = at::from_blob(s.shift, {sight.features()}, at::kFloat).clone();
    scale = at::from_blob(s.scale, {sight.features()}, at::kFloat).clone();
  }
  [[nodiscard]] nets::NamedTensors to_file(const nets::NamedTensors& weights) const {
    nets::NamedTensors there;
    for (const auto& [name, tensor] : weights) there.emplace_back(name, tensor.to(at::kCPU));
    return scaled ? nets::fold_input_scale(there, shift, scale) : there;
  }
  [[nodiscard]] nets::NamedTensors from_file(const nets::NamedTensors& weights) const {
    return scaled ? nets::unfold_input_scale(weights, shift, scale) : weights;
  }
};

void load_weights(const TrainOptions& o, const FeatureMap& map, learners::Learner& learner) {
  const io::RunModel files = io::find_run_model(o.runs_dir, o.game_name, static_cast<int>(o.load_model_run),
                                                static_cast<int>(o.load_model_run_episode));
  const auto load = [&](const std::string& path, const nets::NamedTensors& views) {
    const io::NamedTensors raw = io::load_state_dict(path);
    nets::copy_state(raw, views, path);  // checks names and shapes before anything is computed from them
    nets::copy_state(map.from_file(raw), views, path);
  };
  load(files.actor, learner.exported_actor());
  load(files.critic, learner.exported_critic());
  learner.start_from_exported();
}

// One configuration on all ranks; the error names the settings that differ.
void check_settings(const nlohmann::ordered_json& settings, dist::DistContext& context) {
  const auto main =
      nlohmann::ordered_json::parse(context.broadcast_text(settings.dump(), context.deadline()));
  std::vector<std::string> differences;
  for (const auto& [name, value] : settings.items()) {
    if (main.at(name) != value)
      differences.push_back(fmt::format("--{} {} (rank 0: {})", name, value.dump(), main.at(name).dump()));
  }
  context.check_same("the configuration",
                     differences.empty() ? "that of rank 0" : fmt::format("{}", fmt::join(differences, ", ")),
                     context.deadline());
}

// The same bits on every rank, whatever each one made of the seed.
void share_weights(learners::Learner& learner, dist::DistContext& context) {
  if (context.size() == 1) return;
  for (auto& [name, tensor] : learner.state()) {
    at::Tensor whole = tensor.contiguous();
    context.broadcast(whole, 0, context.deadline());
    tensor.copy_(whole);
  }
  learner.state_changed();
}

std::uint64_t add_to_hash(std::uint64_t hash, const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.to(at::kCPU).contiguous();
  const auto* word = static_cast<const std::uint32_t*>(bytes.data_ptr());
  for (std::int64_t i = 0; i < bytes.numel(); ++i) hash = (hash ^ word[i]) * 1099511628211ULL;
  return hash;
}

constexpr std::uint64_t kHashStart = 14695981039346656037ULL;

std::string state_hash(learners::Learner& learner) {
  std::uint64_t hash = kHashStart;
  for (const auto& [name, tensor] : learner.state()) hash = add_to_hash(hash, tensor);
  return fmt::format("{:016x}", hash);
}

// One line from which a person sees that ranks learned the same from different experience, and that two runs
// are the same run.
void tell_fingerprints(learners::Learner& learner, const rollout::Collector& collector,
                       const replay::Batch& batch, dist::DistContext& context,
                       std::optional<Reporter>& reporter) {
  std::uint64_t last_batch = kHashStart;
  for (const at::Tensor& column : batch.columns) last_batch = add_to_hash(last_batch, column);
  const std::vector<std::string> all = context.gather(
      fmt::format("boards {:016x} batch {:016x}", collector.hash(), last_batch), context.deadline());
  if (!reporter) return;
  std::string line = "Fingerprint: weights " + state_hash(learner);
  for (std::size_t rank = 0; rank < all.size(); ++rank) line += fmt::format("; rank {} {}", rank, all[rank]);
  reporter->line(line);
}

double gpu_memory_mb(const at::Device& device) {
#ifdef SD_HAVE_CUDA
  if (device.is_cuda()) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    return static_cast<double>(stats.allocated_bytes[0].current) / 1048576.0;
  }
#endif
  (void)device;
  return 0.0;
}

// What rank 0 keeps on disk.
class Keeper {
 public:
  Keeper(const TrainOptions& o, const nlohmann::ordered_json& settings, const dist::DistContext& context)
      : folder_(io::create_run_folder(o.runs_dir, o.game_name).path), map_(o) {
    nlohmann::ordered_json all = settings;
    all["world_size"] = context.size();
    all["hosts"] = context.hosts();
    all["backend"] = context.backend();
    all["device_used"] = context.device().str();
    all["version"] = version_text();
    io::write_json(folder_ + "/config.json", all);
  }
  [[nodiscard]] const std::string& folder() const { return folder_; }

  void save(learners::Learner& learner, const std::string& name) const {
    const std::string models = folder_ + "/trained_model/";
    io::save_state_dict(models + "actor_" + name + ".pth", map_.to_file(learner.exported_actor()));
    io::save_state_dict(models + "critic_" + name + ".pth", map_.to_file(learner.exported_critic()));
  }

 private:
  std::string folder_;
  FeatureMap map_;
};

// What all ranks agreed on at a vote.
// Ballots add up over the ranks to what all of them agree on.
struct Ballot {
  std::int64_t stop = 0;      // asked to stop
  std::int64_t save = 0;      // asked to save and go on
  std::int64_t finished = 0;  // has played its episodes
  std::int64_t late = 0;      // time is up
  std::int64_t episode = 0;   // rank 0's, the others say 0
};

Ballot vote(dist::DistContext& context, const Ballot& mine) {
  if (context.size() == 1) return mine;
  at::Tensor sum = at::tensor({mine.stop, mine.save, mine.finished, mine.late, mine.episode}, at::kLong)
                       .to(context.device());
  context.all_reduce_sum(sum, context.deadline());
  sum = sum.to(at::kCPU);
  const auto* all = sum.data_ptr<std::int64_t>();
  return {all[0], all[1], all[2], all[3], all[4]};
}

}  // namespace

learners::LearnerOptions learner_options(const TrainOptions& o, int world_size, at::Device device) {
  learners::LearnerOptions l;
  l.algo = o.algo;
  l.features = sight_of(o).features();
  l.hidden_size = o.hidden_size;
  l.output_activation = o.output_activation;
  l.tau = o.tau;
  l.a_lr = scaled_rate(o, o.a_lr, world_size);
  l.c_lr = scaled_rate(o, o.c_lr, world_size);
  l.layer_norm = o.layer_norm;
  l.expected_value = o.expected_value;
  l.actor_interval = o.actor_interval;
  l.clipped_double_critics = o.clipped_double_critics;
  l.coalesced_update = o.coalesced_update;
  l.seed = static_cast<std::uint64_t>(o.seed);
  l.device = device;
  return l;
}

std::string version_text() { return fmt::format("snake_ddp {} with LibTorch {}", SD_VERSION, TORCH_VERSION); }

base::ExitCode run_training(const TrainOptions& o, const dist::World& world, const Watch& watch) {
  check_together(o);
  watch_signals();
  const auto timeout = seconds_to_ms(o.dist_timeout);
  dist::DistContext context(world, {o.dist_backend, o.device, seconds_to_ms(o.join_timeout), timeout,
                                    version_text(), o.shared_memory});
  dist::Watchdog watchdog(context.rank(), {timeout + std::chrono::seconds(60), std::chrono::seconds(25)},
                          stop_requested);
  at::set_num_threads(o.threads > 0 ? static_cast<int>(o.threads)
                                    : std::max(1, base::usable_cores() / context.local_size()));

  TrainOptions shared = o;
  shared.local_rank = 0;  // the one setting that differs by rank
  const nlohmann::ordered_json settings = config::to_json(fields(shared));
  check_settings(settings, context);

  const std::unique_ptr<learners::Learner> learner =
      learners::make_learner(learner_options(o, context.size(), context.device()));
  if (o.load_model) load_weights(o, FeatureMap(o), *learner);
  share_weights(*learner, context);
  replay::Buffer replay(learner->columns(), o.buffer_size);
  std::optional<Recorder> recorder;  // of rank 0, once it has a folder
  rollout::CollectorOptions playing = collector_options(o, context.rank());
  playing.watch = [&recorder](const auto&... what) {
    if (recorder) recorder->see(what...);
  };
  rollout::Collector collector(playing, replay);
  const std::uint64_t sample_seed =
      static_cast<std::uint64_t>(o.seed) + static_cast<std::uint64_t>(context.rank());

  std::optional<Keeper> keeper;
  std::optional<Reporter> reporter;
  if (context.is_main()) {
    keeper.emplace(o, settings, context);
    reporter.emplace(keeper->folder(), o.max_episodes, o.log_every_episode);
    if (o.record_interval > 0) recorder.emplace(keeper->folder() + "/games", o, collector);
    reporter->line(fmt::format("{}: {} rank(s) on {}, {}, {} thread(s) each", version_text(), context.size(),
                               fmt::join(context.hosts(), ", "), context.device().str(),
                               at::get_num_threads()));
    reporter->line("Run folder: " + keeper->folder());
  }

  double allreduce_s = 0;
  std::int64_t allreduces = 0;
  const learners::Average average([&](const at::Tensor& gradient) { context.post_mean(gradient); },
                                  [&](at::Tensor& gradient) {
                                    if (context.size() == 1) return;
                                    const auto begin = Clock::now();
                                    context.all_reduce_mean(gradient, context.deadline());
                                    allreduce_s +=
                                        std::chrono::duration<double>(Clock::now() - begin).count();
                                    ++allreduces;
                                  });

  const agents::Curriculum curriculum = agents::parse_curriculum(o.opponent_difficulty_strategy);
  const auto difficulty = [&](std::int64_t episode) {
    return agents::difficulty_at(curriculum, std::clamp<std::int64_t>(episode, 1, o.max_episodes),
                                 o.max_episodes);
  };
  const rollout::Player self{std::nullopt, &learner->policy(), sight_of(o), false};
  const rollout::Player rival{agents::try_opponent(o.eval_opponent), nullptr, {}, false};

  replay::Batch batch;
  std::vector<rollout::Episode> ended;
  const auto begin = Clock::now();
  auto last_pace = begin;
  std::int64_t steps = 0, updates = 0, steps_told = 0, updates_told = 0, saved = 0, evaluations = 0,
               checks = 0;
  double updates_due = 0, best_win_rate = -1;
  Ballot agreed;
  const std::int64_t votes_every = vote_interval(o);
  for (bool go_on = true; go_on;) {
    // 1. Play: one move on every board.
    ended.clear();
    collector.step(learner->policy(), ended);
    ++steps;
    watchdog.tick("playing");

    // 2. Sample and 3. learn, once replay holds a batch; counted in steps, which are equal on all ranks.
    const bool warm = (steps - o.n_step + 1) * o.num_envs >= o.batch_size;
    updates_due += warm ? o.updates_per_step * static_cast<double>(o.num_envs) : 0.0;
    for (; updates_due >= 1.0; updates_due -= 1.0) {
      replay.sample(o.batch_size, sample_seed, static_cast<std::uint64_t>(updates), batch);
      learner->update(batch, average);
      ++updates;
      watchdog.tick("learning");
    }
    if (watch) {
      watch({steps * o.num_envs, updates, replay.payload_bytes() / replay.capacity() * replay.size()});
    }

    // 4. Tell. Without this step the weights would be the same.
    if (reporter && (!ended.empty() || reporter->due())) {
      std::optional<learners::UpdateStats> stats;
      if (updates > 0) stats = learner->stats();
      for (const rollout::Episode& e : ended) {
        reporter->episode(e, difficulty(e.started), e.opponent == agents::Opponent::kEvasion,
                          stats ? &*stats : nullptr);
      }
      if (reporter->due()) {
        const auto now = Clock::now();
        const double passed = std::chrono::duration<double>(now - last_pace).count();
        const Pace pace{static_cast<double>((steps - steps_told) * o.num_envs * context.size()) / passed,
                        static_cast<double>(updates - updates_told) / passed,
                        allreduces > 0 ? 1000 * allreduce_s / static_cast<double>(allreduces) : 0.0,
                        gpu_memory_mb(context.device())};
        reporter->pace(collector.episodes_ended(), pace, stats ? &*stats : nullptr, collector.epsilon(),
                       difficulty(collector.episodes_ended()), replay.size());
        last_pace = now;
        steps_told = steps, updates_told = updates, allreduce_s = 0, allreduces = 0;
        if (stats && !std::isfinite(stats->critic_loss)) {
          throw base::Error(base::kExitBug,
                            fmt::format("the critic's loss is {} after {} updates: training diverged; lower "
                                        "--c_lr or --reward_scale",
                                        stats->critic_loss, updates));
        }
      }
    }

    // 5. Keep: save, compare, judge, and agree on going on.
    const std::int64_t episode = collector.episodes_ended();
    if (keeper && episode / o.save_interval > saved) {
      saved = episode / o.save_interval;
      keeper->save(*learner, std::to_string(o.model_episode + saved * o.save_interval));
    }
    if (steps % votes_every != 0) continue;
    const bool late =
        o.max_minutes > 0 && Clock::now() - begin > std::chrono::duration<double>(o.max_minutes * 60);
    agreed = vote(context, {stop_requested(), take_save_request(), episode >= o.max_episodes, late,
                            context.is_main() ? episode : 0});
    const bool finished = agreed.finished == context.size() || agreed.late > 0;
    go_on = agreed.stop == 0 && !finished;
    if (keeper && agreed.save > 0) {
      keeper->save(*learner, std::to_string(o.model_episode + episode));
      reporter->line(fmt::format("Saved at episode {}, as asked by a signal", o.model_episode + episode));
    }
    if (o.check_consistency > 0 && updates / o.check_consistency > checks) {
      checks = updates / o.check_consistency;
      context.check_same(fmt::format("weights after {} updates", updates), state_hash(*learner),
                         context.deadline());
    }
    // Who asks to stop does not wait for games.
    if (o.eval_interval > 0 && agreed.stop == 0 &&
        (agreed.episode / o.eval_interval > evaluations || finished)) {
      evaluations = agreed.episode / o.eval_interval;
      watchdog.tick("evaluating");
      const auto alive = [&](std::int64_t, const game::State&) { watchdog.tick("evaluating"); };
      const rollout::MatchResult result =
          judge(self, rival, {o.eval_games, static_cast<std::uint64_t>(o.seed), true, 0, 1, alive}, context);
      if (reporter) reporter->evaluation(agreed.episode, o.eval_opponent, result);
      if (keeper && result.win_rate() > best_win_rate) keeper->save(*learner, "best");
      best_win_rate = std::max(best_win_rate, result.win_rate());
      if (o.target_win_rate > 0 && result.win_rate() >= o.target_win_rate) go_on = false;
    }
  }

  if (o.check_consistency > 0) {
    context.check_same("weights at the end", state_hash(*learner), context.deadline());
  }
  if (keeper) {
    keeper->save(*learner, std::to_string(o.model_episode + collector.episodes_ended()));
    reporter->line(agreed.stop
                       ? fmt::format("Stopped by a signal at episode {}; actor and critic are saved in {}",
                                     collector.episodes_ended(), keeper->folder())
                       : fmt::format("Training completed! {} episodes, {} steps, {} updates in {:.1f} min",
                                     collector.episodes_ended(), steps * o.num_envs, updates,
                                     std::chrono::duration<double>(Clock::now() - begin).count() / 60));
  }
  tell_fingerprints(*learner, collector, batch, context, reporter);
  if (reporter) reporter->flush();
  watchdog.tick("leaving");
  context.barrier("end of training", context.deadline());
  return base::kExitDone;
}

}  // namespace snake_ddp::train
