#include "snake_ddp/train/run.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <type_traits>

#include "device_loop.hpp"
#include "keeper.hpp"
#include "late_stats.hpp"
#include "snake_ddp/agents/curriculum.hpp"
#include "snake_ddp/base/hash.hpp"
#include "snake_ddp/base/random.hpp"
#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/dist/gpus.hpp"
#include "snake_ddp/dist/watchdog.hpp"
#include "snake_ddp/io/atomic_file.hpp"
#include "snake_ddp/io/file_error.hpp"
#include "snake_ddp/io/log_file.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/learners/with_tokens.hpp"
#include "snake_ddp/nets/precision.hpp"
#include "snake_ddp/replay/buffer.hpp"
#include "snake_ddp/rollout/collector.hpp"
#include "snake_ddp/train/checkpoints.hpp"
#include "snake_ddp/train/collected.hpp"
#include "snake_ddp/train/judge.hpp"
#include "snake_ddp/train/league.hpp"
#include "snake_ddp/train/plan.hpp"
#include "snake_ddp/train/recorder.hpp"
#include "snake_ddp/train/reporter.hpp"
#include "snake_ddp/train/resume.hpp"
#include "snake_ddp/train/signals.hpp"
#include "snake_ddp/train/tokens.hpp"
#include "updater.hpp"
#include "weights.hpp"

namespace snake_ddp::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

nlohmann::ordered_json settings_of(const TrainOptions& o) {
  TrainOptions shared = o;
  shared.local_rank = 0;  // the one setting that differs by rank
  return config::to_json(fields(shared));
}

// One configuration on all ranks; the error names the settings that differ.
void check_settings(const nlohmann::ordered_json& settings, dist::DistContext& context) {
  const auto main =
      nlohmann::ordered_json::parse(context.broadcast_text(settings.dump(), context.deadline()));
  std::vector<std::string> differences;
  for (const auto& [name, value] : settings.items()) {
    const auto there = main.find(name);
    if (there == main.end() || *there != value)
      differences.push_back(fmt::format("--{} {} (rank 0: {})", name, value.dump(),
                                        there == main.end() ? "no such setting" : there->dump()));
  }
  context.check_same("the configuration",
                     differences.empty() ? "that of rank 0" : fmt::format("{}", fmt::join(differences, ", ")),
                     context.deadline());
}

std::unique_ptr<learners::Learner> make_learner(const Plan& o, const dist::DistContext& context) {
  at::set_num_threads(threads_of(o, context));
  nets::set_product_precision(o.precision);
  const learners::LearnerOptions options = learner_options(o, context.size(), context.device());
  if (o.tokens.empty()) return learners::make_learner(options);
  return learners::make_learner_with_tokens(options, token_reader(o.tokens, context.device()));
}

// Whether this rank finds in the run's folder what rank 0 just put there; else `unreadable` says what but a missing file
// kept it from that.
bool sees_run(const std::string& folder, dist::DistContext& context, std::string& unreadable) {
  if (context.size() == 1) return true;
  std::string name, bytes;
  std::shared_ptr<void> token;
  if (context.is_main()) {
    std::random_device random;
    name = fmt::format(".rank_0_{:08x}{:08x}", random(), random());
    const auto remove = [path = folder + "/" + name](void*) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    };
    token = {nullptr, remove};
    try {
      io::write_file_atomically(folder + "/" + name, bytes);
    } catch (const base::FileError&) {
      name = "config.json";  // no room: what a run that goes on has must do
      if (!std::filesystem::exists(folder + "/" + name)) throw;
      bytes = io::read_file(folder + "/" + name);
    }
  }
  name = context.broadcast_text(name, context.deadline());
  bytes = context.broadcast_text(bytes, context.deadline());
  bool sees = true;
  try {
    sees = io::read_file(folder + "/" + name) == bytes;
  } catch (const io::SystemError& e) {
    sees = false;
    if (!e.is_missing()) unreadable = e.what();
  }
  context.barrier("who sees the run's folder", context.deadline());
  return sees;
}

// Tells which ranks cannot see the run folder; empty on the other ranks, and where all do.
std::string blind_ranks(bool sees, dist::DistContext& context) {
  std::vector<std::string> blind;
  const std::vector<std::string> all = context.gather(sees ? "sees" : "", context.deadline());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) blind.push_back(fmt::format("{} on {}", rank, context.hosts()[rank]));
  }
  return fmt::format("{}", fmt::join(blind, ", "));
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

// Ballots add up over the ranks to what all of them agree on.
struct Ballot {
  std::int64_t stop = 0;      // asked to stop
  std::int64_t save = 0;      // asked to save and go on
  std::int64_t finished = 0;  // has played its episodes
  std::int64_t late = 0;      // time is up
  std::int64_t writing = 0;   // still writes its part of a checkpoint
  std::int64_t episode = 0;   // rank 0's, the others say 0
  Collected collected{};
};
static_assert(std::is_trivially_copyable_v<Ballot> && sizeof(Ballot) == 14 * sizeof(std::int64_t));

Ballot vote(dist::DistContext& context, Ballot ballot) {
  if (context.size() == 1) return ballot;
  at::Tensor sum = at::empty({static_cast<std::int64_t>(sizeof(Ballot) / sizeof(std::int64_t))}, at::kLong);
  std::memcpy(sum.data_ptr(), &ballot, sizeof ballot);
  sum = sum.to(context.device());
  context.all_reduce_sum(sum, context.deadline());
  sum = sum.to(at::kCPU);
  std::memcpy(&ballot, sum.data_ptr(), sizeof ballot);
  return ballot;
}

std::string hash_text(const std::string& text) {
  return fmt::format("{:016x}", base::add_to_hash(base::kHashStart, text));
}

rollout::CollectorOptions watched(rollout::CollectorOptions options, std::optional<Recorder>& recorder) {
  options.watch = [&recorder](const auto&... what) {
    if (recorder) recorder->see(what...);
  };
  return options;
}

// A run on one rank.
class Run {
 public:
  Run(const TrainOptions& options, const dist::World& world, const Watch& watch,
      std::chrono::milliseconds patience);
  base::ExitCode train();
  /// A line in train.rank{R}.log of every rank but 0 that sees the folder and can write there.
  void note(const std::string& line);

 private:
  std::vector<std::string> open_folder(const Origin& origin, const Launch& launch);
  std::vector<std::string> resume(const Origin& origin, const Launch& launch);
  void begin_to_keep(std::vector<std::string>& lines);
  void open_rank_log();
  [[nodiscard]] Collected collected() const;
  bool all_have_played();
  void play();
  void learn();
  void bring_home();
  void learn_from_replay();
  void learn_from_rollout();
  void set_rates();
  void count_due_updates();
  void draw();
  void update();
  [[nodiscard]] std::uint64_t sample_seed() const {
    return static_cast<std::uint64_t>(o_.seed) + static_cast<std::uint64_t>(context_.rank());
  }
  void tell();
  void tell_pace(const learners::UpdateStats* stats);
  bool keep();
  bool play_due_games();
  void evaluate();
  void judge_league();
  void keep_checkpoints();
  void begin_checkpoint();
  void mend_folder();
  bool save(const std::string& name);
  std::string write_last_checkpoint();
  std::string save_at_end();
  void tell_checkpoint(const Checkpoints::Outcome& outcome);
  base::ExitCode end();
  [[nodiscard]] int difficulty(std::int64_t episode) const;
  [[nodiscard]] std::int64_t episodes_ended() const;
  [[nodiscard]] double epsilon() const;
  [[nodiscard]] std::int64_t replay_size() const;
  [[nodiscard]] double seconds() const { return seconds_before_ + seconds_since(begin_); }

  const Plan o_;
  const Watch watch_;
  const dist::World world_;
  const std::chrono::milliseconds timeout_;
  dist::DistContext context_;
  dist::Watchdog watchdog_;
  const nlohmann::ordered_json settings_;
  const std::unique_ptr<learners::Learner> learner_;
  replay::Buffer replay_;
  std::optional<Recorder> recorder_;  // rank 0's, once it has a folder
  League league_;
  rollout::Collector collector_;
  Counters counters_;
  const RunState state_;
  const agents::Curriculum curriculum_;
  const agents::Mix mix_;
  const std::int64_t votes_every_;

  std::string folder_;  // known to all ranks, written by rank 0
  bool sees_run_ = true;
  std::string unreadable_;  // why not, where it is there
  std::optional<Keeper> keeper_;
  std::optional<Reporter> reporter_;     // as the keeper rank 0's
  std::optional<io::LogFile> rank_log_;  // the others'
  std::optional<Checkpoints> checkpoints_;
  std::int64_t resumed_at_ = -1;  // step of the checkpoint that this start went on from
  bool checkpoint_asked_ = false;

  learners::Average average_;
#ifdef SD_HAVE_CUDA
  std::optional<c10::cuda::CUDAStreamGuard> stream_;  // recordings are not made on the default stream
#endif
  std::optional<DeviceLoop>
      on_device_;  // with --boards device; collector_ and replay_ are then for checkpoints
  std::optional<Updater> updater_;
  const replay::Batch* batch_ = nullptr;  // the last one
  std::optional<LateStats> stats_;
  replay::Batch rollout_;
  std::vector<rollout::Episode> ended_;
  Collected collected_;  // of this rank, less what is counted elsewhere
  std::int64_t steps_before_ = 0, appended_before_ = 0;
  Ballot agreed_;
  bool finished_ = false, first_update_told_ = false;
  int last_level_ = 0;  // of the last opponent told

  Clock::time_point begin_ = Clock::now(), last_pace_ = begin_;
  double seconds_before_ = 0, allreduce_s_ = 0;
  std::int64_t allreduces_ = 0, steps_told_ = 0, updates_told_ = 0, updates_before_ = 0;
};

Run::Run(const TrainOptions& options, const dist::World& world, const Watch& watch,
         std::chrono::milliseconds patience)
    : o_(options),
      watch_(watch),
      world_(world),
      timeout_(seconds_to_ms(o_.dist_timeout)),
      context_(world, {o_.dist_backend, o_.device, seconds_to_ms(o_.join_timeout), timeout_, build_text(),
                       o_.shared_memory, stop_requested}),
      watchdog_(context_.rank(), {timeout_ + patience, std::chrono::seconds(25)}, stop_requested),
      settings_(settings_of(options)),
      learner_((check_settings(settings_, context_), make_learner(o_, context_))),
      replay_(rollout::with_boards(learner_->columns(), sight_of(o_)), replay_capacity(o_)),
      league_(league_options(o_)),
      collector_(
          watched(collector_options(o_, context_.rank(), league_, learner_->policy().memory()), recorder_),
          replay_),
      state_{*learner_, collector_, replay_, counters_, league_},
      curriculum_(agents::parse_curriculum(o_.opponent_difficulty_strategy)),
      mix_(agents::parse_mix(o_.opponent_mix)),
      votes_every_(vote_interval(o_)) {
#ifdef SD_HAVE_CUDA
  if (context_.device().is_cuda())
    stream_.emplace(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, context_.device().index()));
#endif
  const Launch launch = launch_of(world_, context_);
  const Origin origin = origin_of(o_, launch, context_);
  const bool goes_on = !origin.place.run.empty();
  std::vector<std::string> lines = origin.lines;
  if (!goes_on) {
    if (o_.load_model) load_weights(o_, FeatureMap(o_), *learner_);
    share_weights(*learner_, context_);
  } else {
    for (const std::string& line : resume(origin, launch)) lines.push_back(line);
  }
  if (o_.boards == "device") {
    on_device_.emplace(o_, collector_options(o_, context_.rank(), league_, 0), *learner_, context_.device(),
                       votes_every_);
    on_device_->take_over(collector_, replay_, counters_.updates);
  }
  const bool records = o_.cuda_graph == "on" && context_.device().is_cuda();
  updater_.emplace(*learner_, context_.device(), records);
  stats_.emplace(context_.device());
  if (o_.cuda_graph == "on" && !records) lines.push_back("No CUDA graph: the learner is on the CPU");
  // Who cannot begin has failed by now: a new run's folder is made only here, and one that goes on only now written to.
  context_.barrier("the beginning", context_.deadline());
  if (!goes_on) {
    for (const std::string& line : open_folder(origin, launch)) lines.push_back(line);
  }
  if (keeper_) begin_to_keep(lines);
  open_rank_log();
  steps_before_ = counters_.steps;
  appended_before_ = replay_.appended();
  updates_before_ = updates_told_ = counters_.updates;
  steps_told_ = counters_.steps;
  seconds_before_ = counters_.seconds;
  if (context_.is_main()) {
    RunProgress begin;
    begin.episode = collector_.episodes_ended();
    begin.max_episodes = o_.max_episodes;
    begin.seconds = counters_.seconds;
    begin.max_seconds = o_.max_minutes * 60;
    begin.target_win_rate = o_.target_win_rate;
    reporter_.emplace(folder_, begin, o_.log_every_episode);
    if (o_.record_interval > 0) recorder_.emplace(folder_ + "/games", o_, collector_);
    reporter_->line(fmt::format("{}: {} rank(s) on {}, {}, {} thread(s) each", version_text(),
                                context_.size(), fmt::join(context_.hosts(), ", "), context_.device().str(),
                                at::get_num_threads()));
#ifdef SD_HAVE_CUDA
    if (o_.device == "auto" && dist::visible_gpus() == 0)
      reporter_->line("On the CPU: " + dist::why_no_gpu());
#endif
    reporter_->line("Run folder: " + keeper_->folder());
    reporter_->line("Settings: " + hash_text(settings_.dump()));
    for (const std::string& line : lines) reporter_->line(line);
    keeper_->has_begun();
  }
  const auto post = [this](const at::Tensor& gradient) { context_.post_mean(gradient); };
  const auto average = [this](at::Tensor& gradient) {
    if (context_.size() == 1) return;
    const auto before = Clock::now();
    context_.all_reduce_mean(gradient, context_.deadline());
    allreduce_s_ += seconds_since(before);
    ++allreduces_;
  };
  average_ = learners::Average(post, average);
}

// Claims the run's folder, or makes a new one where there is none. Returns on rank 0 lines to tell.
std::vector<std::string> Run::open_folder(const Origin& origin, const Launch& launch) {
  if (context_.is_main()) keeper_.emplace(o_, origin.place.run, settings_, launch, context_, origin.identity);
  folder_ =
      context_.is_main() ? std::filesystem::absolute(keeper_->folder()).lexically_normal().string() : "";
  folder_ = context_.broadcast_text(folder_, context_.deadline());
  sees_run_ = sees_run(folder_, context_, unreadable_);
  checkpoints_.emplace(Checkpoints::Plan{folder_, context_.rank(), context_.size(), sees_run_,
                                         o_.checkpoint_replay == "on", static_cast<int>(o_.keep_checkpoints),
                                         version_text(), settings_, keeper_ ? keeper_->identity() : ""});
  const std::string blind = blind_ranks(sees_run_, context_);
  if (blind.empty()) return {};
  return {
      fmt::format("Rank(s) {} cannot see the run folder: their boards and replay are not in "
                  "checkpoints. Put --runs_dir where all machines see it",
                  blind)};
}

// Returns on rank 0 lines to tell. Nothing of the run is written yet: another start may still be needed.
std::vector<std::string> Run::resume(const Origin& origin, const Launch& launch) {
  std::vector<std::string> lines = open_folder(origin, launch);
  for (const std::string& line : resume_from(origin, {sees_run_, unreadable_}, state_, settings_, context_))
    lines.push_back(line);
  resumed_at_ = counters_.steps;
  if (o_.checkpoint_interval == 0)
    lines.push_back(
        fmt::format("No more checkpoints (--checkpoint_interval 0): what comes after step {} cannot be gone "
                    "on from",
                    resumed_at_));
  return lines;
}

void Run::begin_to_keep(std::vector<std::string>& lines) {
  if (resumed_at_ >= 0) {
    io::discard_unfinished(folder_);  // room for what follows
    io::mark_resumable(folder_, false);
  }
  const std::string failure = keeper_->write_settings();
  if (!failure.empty()) lines.push_back(failure);
}

// Every rank but 0 has a short log beside rank 0's, where it sees the folder.
void Run::open_rank_log() {
  if (context_.is_main() || !sees_run_) return;
  try {
    rank_log_.emplace(fmt::format("{}/train.rank{}.log", folder_, context_.rank()));
  } catch (const base::FileError&) {  // a folder that this rank may only read
    return;
  }
  note(fmt::format("{}: rank {} of {} on {}, {}, process {}", version_text(), context_.rank(),
                   context_.size(), context_.hosts()[static_cast<std::size_t>(context_.rank())],
                   context_.device().str(), getpid()));
  note("Settings: " + hash_text(settings_.dump()));
  if (resumed_at_ >= 0) note(fmt::format("Resumed from checkpoint step {}", resumed_at_));
}

void Run::note(const std::string& line) {
  if (!rank_log_) return;
  try {
    rank_log_->line(line);
  } catch (const base::FileError&) {  // no room: training goes on without it, as on rank 0
    rank_log_.reset();
  }
}

Collected Run::collected() const {
  Collected all = collected_;
  all.env_steps = (counters_.steps - steps_before_) * o_.num_envs;
  all.transitions =
      (on_device_ ? on_device_->fleet().replay_appended() : replay_.appended()) - appended_before_;
  return all;
}

int Run::difficulty(std::int64_t episode) const {
  return agents::difficulty_at(curriculum_, std::clamp<std::int64_t>(episode, 1, o_.max_episodes),
                               o_.max_episodes);
}

bool Run::all_have_played() {
  if (resumed_at_ < 0) return false;
  const std::int64_t episode = episodes_ended();
  agreed_ =
      vote(context_, {.finished = episode >= o_.max_episodes, .episode = context_.is_main() ? episode : 0});
  return finished_ = agreed_.finished == context_.size();
}

base::ExitCode Run::train() {
  // The first one, of an empty replay, shows at once whether checkpoints can be written.
  if (o_.checkpoint_interval > 0 && resumed_at_ < 0) begin_checkpoint();
  bool go_on = !all_have_played();
  if (counters_.evaluation_due > 0 || counters_.judgement_due > 0) go_on = play_due_games();
  while (go_on) {
    // 1. Play: one move on every board.
    const auto before = Clock::now();
    play();
    for (const rollout::Episode& e : ended_) collected_.add(e);
    collected_.play_us +=
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - before).count();

    // 2. Sample and 3. learn, once replay holds a batch; counted in steps, which are equal on all ranks.
    learn();

    // 4. Tell. Without this step the weights would be the same.
    if (reporter_) tell();

    // 5. Keep: save, compare, judge, and agree on going on.
    go_on = keep();
  }
  return end();
}

// With --overlap a step's first batch is drawn before it stores anything, and the update queued before the move: on a GPU
// both are done at once. On the CPU it is the same work in the same order.
void Run::play() {
  ended_.clear();
  const bool overlaps = o_.overlap == "on";
  if (overlaps) {
    set_rates();
    count_due_updates();
  }
  const bool ahead = overlaps && counters_.updates_due >= 1.0;
  if (ahead) draw();
  on_device_ ? on_device_->decide() : collector_.decide(learner_->policy());
  if (ahead) {
    update();
    counters_.updates_due -= 1.0;
  }
  on_device_ ? on_device_->move() : collector_.move(ended_);
  ++counters_.steps;
  // Boards on a device tell of their games only when all ranks talk, as asking waits for the device.
  if (on_device_ && counters_.steps % votes_every_ == 0) on_device_->fetch(ended_);
  watchdog_.tick("playing");
}

std::int64_t Run::episodes_ended() const {
  return on_device_ ? on_device_->fleet().episodes_ended() : collector_.episodes_ended();
}

double Run::epsilon() const { return on_device_ ? on_device_->fleet().epsilon() : collector_.epsilon(); }

std::int64_t Run::replay_size() const {
  return on_device_ ? on_device_->fleet().replay_size() : replay_.size();
}

// What a device holds, into the collector and replay, which checkpoints are made of.
void Run::bring_home() {
  if (on_device_) on_device_->give_back(collector_, replay_);
}

void Run::set_rates() {
  if (o_.lr_end == 1.0) return;
  learner_->scale_rates(rate_factor(o_, counters_.steps));
}

void Run::learn() {
  set_rates();
  if (learns_from_rollouts(o_)) {
    learn_from_rollout();
  } else {
    learn_from_replay();
  }
  if (watch_) {
    watch_({counters_.steps * o_.num_envs, counters_.updates,
            replay_.payload_bytes() / replay_.capacity() * replay_size()});
  }
}

// Of one step, once replay holds a batch of what is stored by now.
void Run::count_due_updates() {
  const bool warm = (counters_.steps - counters_.empty_at - o_.n_step + 1) * o_.num_envs >= o_.batch_size;
  counters_.updates_due += warm ? o_.updates_per_step * static_cast<double>(o_.num_envs) : 0.0;
}

void Run::learn_from_replay() {
  if (o_.overlap == "off") count_due_updates();
  for (; counters_.updates_due >= 1.0; counters_.updates_due -= 1.0) {
    draw();
    update();
  }
}

void Run::draw() {
  if (on_device_) {
    on_device_->draw();
    batch_ = &on_device_->last_batch();
    return;
  }
  const auto number = static_cast<std::uint64_t>(counters_.updates);
  replay::Batch& batch = updater_->next_batch();
  if (learns_from_windows(o_)) {
    replay_.sample_windows(o_.batch_size / o_.sequence_length, o_.sequence_length, sample_seed(), number,
                           batch);
  } else {
    replay_.sample(o_.batch_size, sample_seed(), number, batch);
  }
  batch_ = &batch;
}

// From the batch that was made last.
void Run::update() {
  on_device_ ? on_device_->learn(average_) : updater_->update(average_);
  ++counters_.updates;
  watchdog_.tick("learning");
}

// All that was played since the last time, shuffled anew for each epoch and dealt to as many batches on every rank.
void Run::learn_from_rollout() {
  if (counters_.steps - counters_.empty_at < o_.rollout_steps) return;
  replay_.gather_all(rollout_);
  learner_->prepare(rollout_);
  const std::int64_t rows = replay_.size(), batches = rollout_batches(o_);
  at::Tensor order = at::arange(rows, at::kLong);
  auto* place = order.data_ptr<std::int64_t>();
  for (std::int64_t epoch = 0; epoch < o_.rollout_epochs; ++epoch) {
    base::RandomStream random(sample_seed(), static_cast<std::uint64_t>(counters_.updates),
                              base::Purpose::kSample);
    for (std::int64_t left = rows; left > 1; --left)
      std::swap(place[left - 1], place[random.below(static_cast<std::uint32_t>(left))]);
    for (std::int64_t b = 0; b < batches; ++b) {
      const std::int64_t first = rows * b / batches, end = rows * (b + 1) / batches;
      replay::Batch& batch = updater_->next_batch();
      batch.columns.clear();
      for (const at::Tensor& column : rollout_.columns)
        batch.columns.push_back(column.index_select(0, order.narrow(0, first, end - first)));
      batch_ = &batch;
      update();
    }
  }
  replay_.restart(0, replay_.appended());
  counters_.empty_at = counters_.steps;
}

void Run::tell() {
  if (!first_update_told_ && counters_.updates > updates_before_) {
    first_update_told_ = true;
    const bool rollouts = learns_from_rollouts(o_);
    reporter_->line(fmt::format(
        "First update after {:.1f} s: {} transitions in rank 0's {}", seconds_since(begin_),
        rollouts ? rollout_.columns.front().size(0) : replay_size(), rollouts ? "rollout" : "replay"));
  }
  if (ended_.empty() && !reporter_->due()) return;
  if (recorder_) {
    const std::string failure = recorder_->take_failure();
    if (!failure.empty()) reporter_->line(fmt::format("No game log: {} Training continues", failure));
  }
  // A GPU's are sent for once a report, and told with the next one.
  const learners::UpdateStats* told = stats_->newest();
  if (counters_.updates > updates_before_ &&
      (context_.device().is_cpu() || told == nullptr || reporter_->due())) {
    stats_->ask(*learner_);
    told = stats_->newest();
  }
  for (const rollout::Episode& e : ended_)
    reporter_->episode(e, mix_.empty() ? difficulty(e.started) : agents::level_of(e.opponent),
                       e.opponent == agents::Rival{agents::Opponent::kEvasion}, told);
  if (!ended_.empty()) last_level_ = agents::level_of(ended_.back().opponent);
  if (reporter_->due()) tell_pace(told);
}

void Run::tell_pace(const learners::UpdateStats* stats) {
  const double passed = seconds_since(last_pace_);
  const Pace pace{
      static_cast<double>((counters_.steps - steps_told_) * o_.num_envs * context_.size()) / passed,
      static_cast<double>(counters_.updates - updates_told_) / passed,
      allreduces_ > 0 ? 1000 * allreduce_s_ / static_cast<double>(allreduces_) : 0.0,
      gpu_memory_mb(context_.device())};
  const std::int64_t episode = episodes_ended();
  const int level = mix_.empty() ? difficulty(episode) : last_level_;
  if (agreed_.collected.env_steps > 0) reporter_->collected(episode, agreed_.collected);
  reporter_->pace(episode, pace, stats, epsilon(), level, replay_size());
  last_pace_ = Clock::now();
  steps_told_ = counters_.steps, updates_told_ = counters_.updates, allreduce_s_ = 0, allreduces_ = 0;
  if (stats != nullptr && !std::isfinite(stats->critic_loss)) {
    throw base::Error(base::kExitBug,
                      fmt::format("the critic's loss is {} after {} updates: training diverged; lower "
                                  "--c_lr or --reward_scale",
                                  stats->critic_loss, counters_.updates));
  }
}

// Somebody may remove the run's folder under way; what comes from now on must have a place.
void Run::mend_folder() {
  if (!keeper_->mend()) return;
  reporter_->begin_files_anew();
  reporter_->line("The run folder, or part of it, was removed during the run; it has been created again");
}

// Returns whether that worked; else the next one may.
bool Run::save(const std::string& name) {
  try {
    mend_folder();
    keeper_->save(*learner_, name);
    return true;
  } catch (const base::FileError& e) {
    reporter_->line(fmt::format("actor_{} and critic_{} could not be saved: {} Training continues", name,
                                name, e.what()));
    return false;
  }
}

// Returns whether to go on.
bool Run::keep() {
  const std::int64_t episode = episodes_ended();
  if (keeper_ && episode / o_.save_interval > counters_.saved) {
    counters_.saved = episode / o_.save_interval;
    save(std::to_string(o_.model_episode + counters_.saved * o_.save_interval));
  }
  if (counters_.steps % votes_every_ != 0) return true;
  const bool late = o_.max_minutes > 0 && seconds() > o_.max_minutes * 60;
  agreed_ = vote(context_, {stop_requested(), take_save_request(), episode >= o_.max_episodes, late,
                            checkpoints_->busy(), context_.is_main() ? episode : 0, collected()});
  finished_ = agreed_.finished == context_.size() || agreed_.late > 0;
  if (keeper_ && agreed_.save > 0 && save(std::to_string(o_.model_episode + episode))) {
    reporter_->line(fmt::format("Saved at episode {}, requested by a signal", o_.model_episode + episode));
  }
  if (o_.check_consistency > 0 && counters_.updates / o_.check_consistency > counters_.checks) {
    counters_.checks = counters_.updates / o_.check_consistency;
    context_.check_same(fmt::format("weights after {} updates", counters_.updates), state_hash(*learner_),
                        context_.deadline());
  }
  if (o_.eval_interval > 0 && (agreed_.episode / o_.eval_interval > counters_.evaluations || finished_))
    counters_.evaluation_due = 1;
  if (!league_.members().empty() && agreed_.episode / o_.league_interval > counters_.judgements)
    counters_.judgement_due = 1;
  const bool go_on = play_due_games();
  if (go_on) keep_checkpoints();
  return go_on;
}

// Who asks to stop does not wait for games: they stay due, and are the first thing that the next start does. Returns
// whether to go on.
bool Run::play_due_games() {
  if (o_.eval_interval == 0) counters_.evaluation_due = 0;  // asked for by an earlier start
  if (league_.members().empty()) counters_.judgement_due = 0;
  if (counters_.evaluation_due > 0 && agreed_.stop == 0) evaluate();
  if (counters_.judgement_due > 0 && agreed_.stop == 0 && !finished_) judge_league();
  if (counters_.evaluation_due > 0) finished_ = false;  // one at the end is a part of the run
  return agreed_.stop == 0 && !finished_;
}

void Run::evaluate() {
  if (on_device_) on_device_->settle();
  watchdog_.tick("evaluating");
  const auto alive = [&](std::int64_t, const game::State&) { watchdog_.tick("evaluating"); };
  const rollout::Player self{std::nullopt, &learner_->policy(), sight_of(o_), false, o_.mask_fatal};
  const rollout::Player rival{agents::try_opponent(o_.eval_opponent), nullptr, {}, false};
  const std::optional<rollout::MatchResult> played =
      judge(self, rival, {o_.eval_games, static_cast<std::uint64_t>(o_.seed), true, 0, 1, alive}, context_,
            stop_requested);
  if (!played) {
    agreed_.stop = 1;
    return;
  }
  const rollout::MatchResult& result = *played;
  counters_.evaluations = agreed_.episode / o_.eval_interval;
  counters_.evaluation_due = 0;
  if (reporter_) reporter_->evaluation(agreed_.episode, o_.eval_opponent, result);
  note(fmt::format("Evaluation at episode {}, step {}: won {} of {}", agreed_.episode, counters_.steps,
                   result.wins, result.games));
  if (keeper_ && result.win_rate() > counters_.best_win_rate) save("best");
  counters_.best_win_rate = std::max(counters_.best_win_rate, result.win_rate());
  if (o_.target_win_rate > 0 && result.win_rate() >= o_.target_win_rate) finished_ = true;
}

void Run::judge_league() {
  watchdog_.tick("judging the league");
  const std::vector<LeagueMember> before = league_.members();
  const std::optional<Judgement> judgement = league_.judge(
      *learner_, agreed_.episode, context_, [&] { watchdog_.tick("judging the league"); }, stop_requested);
  if (!judgement) {
    agreed_.stop = 1;
    return;
  }
  counters_.judgements = agreed_.episode / o_.league_interval;
  counters_.judgement_due = 0;
  if (reporter_) reporter_->league(before, *judgement);
}

void Run::keep_checkpoints() {
  if (o_.checkpoint_interval == 0) return;
  checkpoint_asked_ = checkpoint_asked_ || agreed_.save > 0;
  if (checkpoints_->under_way()) {
    if (agreed_.writing > 0) return;
    const std::optional<Checkpoints::Outcome> outcome = checkpoints_->advance(context_);
    if (outcome) tell_checkpoint(*outcome);
    if (!outcome) return;
  }
  if (!checkpoint_asked_ && agreed_.episode / o_.checkpoint_interval <= counters_.checkpoints) return;
  begin_checkpoint();
}

void Run::begin_checkpoint() {
  checkpoint_asked_ = false;
  counters_.checkpoints = agreed_.episode / o_.checkpoint_interval;
  counters_.seconds = seconds();
  watchdog_.tick("taking a checkpoint");
  if (keeper_) {
    try {
      mend_folder();
    } catch (const base::FileError& e) {
      reporter_->line(fmt::format("The run folder was removed: {}", e.what()));
    }
  }
  bring_home();
  checkpoints_->begin(state_);
}

void Run::tell_checkpoint(const Checkpoints::Outcome& outcome) {
  note(outcome.failure.empty() ? fmt::format("Wrote this rank's part of checkpoint step {}", outcome.step)
                               : fmt::format("Could not write this rank's part of checkpoint step {}: {}",
                                             outcome.step, outcome.failure));
  if (!reporter_) return;
  if (outcome.failure.empty()) {
    reporter_->line(fmt::format("Checkpoint step {}: {:.1f} MB in {:.1f} s", outcome.step,
                                static_cast<double>(outcome.bytes) / 1e6, outcome.seconds));
  } else {
    reporter_->line(
        fmt::format("No checkpoint at step {}: {} Training continues; next attempt in {} episodes",
                    outcome.step, outcome.failure, o_.checkpoint_interval));
  }
}

// What a later start goes on from, also after the last episode. Returns on all ranks why there is none; empty if it is
// whole.
std::string Run::write_last_checkpoint() {
  if (o_.checkpoint_interval == 0) return {};
  watchdog_.tick("writing the last checkpoint");
  if (checkpoints_->under_way()) {
    const Checkpoints::Outcome earlier = checkpoints_->complete(context_);
    tell_checkpoint(earlier);
    if (earlier.failure.empty() && earlier.step == counters_.steps) return {};
  }
  if (resumed_at_ == counters_.steps) return {};
  begin_checkpoint();
  const Checkpoints::Outcome last = checkpoints_->complete(context_);
  if (last.failure.empty()) tell_checkpoint(last);
  return last.failure;
}

// Returns why actor and critic could not be saved; empty if they are.
std::string Run::save_at_end() {
  try {
    mend_folder();
    keeper_->save(*learner_, std::to_string(o_.model_episode + episodes_ended()));
    return {};
  } catch (const base::FileError& e) {
    return fmt::format("actor and critic are not saved: {}", e.what());
  }
}

base::ExitCode Run::end() {
  const bool stopped = agreed_.stop > 0 && !finished_;
  const std::int64_t episode = episodes_ended();
  if (o_.check_consistency > 0)
    context_.check_same("weights at the end", state_hash(*learner_), context_.deadline());
  const bool resumable = stopped && o_.checkpoint_interval > 0;
  const char* how_on = resumable ? "; --resume with this folder goes on from here"
                                 : "; without checkpoints (--checkpoint_interval 0) the run cannot go on";
  // First of all: a full disk may have room for this, and nothing else is as dear.
  const std::string no_checkpoint = write_last_checkpoint();
  note(fmt::format("{} at step {} after {} updates, {} episodes",
                   stopped ? "Stopped by a signal" : "Finished", counters_.steps, counters_.updates,
                   episode));
  if (keeper_ && resumable && no_checkpoint.empty()) io::mark_resumable(folder_, true);
  const std::string unsaved = keeper_ ? save_at_end() : "";
  if (!no_checkpoint.empty())
    throw base::FileError(
        fmt::format("no final checkpoint: {}{}", no_checkpoint, unsaved.empty() ? "" : "; " + unsaved));
  // A checkpoint holds them, too; a run that is done or keeps none has nothing else to show.
  if (!unsaved.empty() && !resumable)
    throw base::FileError(unsaved +
                          (o_.checkpoint_interval > 0 ? " --resume " + folder_ + " saves them" : ""));
  if (keeper_) {
    const std::string saved =
        unsaved.empty() ? "actor and critic are saved in " + keeper_->folder() : unsaved;
    reporter_->line(
        stopped ? fmt::format("Stopped by a signal at episode {}; {}{}", episode, saved, how_on)
                : fmt::format("Training completed! {} episodes, {} steps, {} updates in {:.1f} min", episode,
                              counters_.steps * o_.num_envs, counters_.updates, seconds() / 60));
  }
  bring_home();
  const std::string line =
      fingerprint_line(*learner_, collector_, batch_ != nullptr ? *batch_ : replay::Batch{}, context_);
  if (reporter_) {
    reporter_->line(line);
    if (agreed_.collected.env_steps > 0) reporter_->collected(episode, agreed_.collected);
    reporter_->flush();
  }
  watchdog_.tick("leaving");
  context_.barrier("end of training", context_.deadline());
  if (!stopped) return base::kExitDone;
  const base::ExitCode code = resumable ? base::kExitResumable : base::kExitFile;
  if (!world_.torchrun) return code;
  // torchrun takes any code but 0 for a failure; launch/torchrun.py reads it here.
  const char* code_file = std::getenv("SNAKE_DDP_EXIT_CODE_FILE");
  if (code_file != nullptr && context_.local_rank() == 0) std::ofstream(code_file) << code;
  return base::kExitDone;
}

}  // namespace

base::ExitCode run_training(const TrainOptions& options, const dist::World& world, const Watch& watch,
                            std::chrono::milliseconds patience) {
  check_together(options);
  check_start(Plan(options), world, dist::visible_gpus());
  watch_signals();
  Run run(options, world, watch, patience);
  try {
    return run.train();
  } catch (const base::Error& e) {
    run.note(fmt::format("Error: {}", e.what()));
    throw;
  }
}

}  // namespace snake_ddp::train
