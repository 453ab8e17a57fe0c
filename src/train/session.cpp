#include "session.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "dist/build.hpp"
#include "dist/gpus.hpp"
#include "dist/self_launch.hpp"
#include "dist/signals.hpp"
#include "io/folders.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "learners/with_tokens.hpp"
#include "nets/precision.hpp"
#include "snake_ddp/core/bf16.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/hash.hpp"
#include "snake_ddp/core/printable.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/mirror.hpp"
#include "train/plan.hpp"
#include "train/resume.hpp"
#include "weights.hpp"

namespace snake_ddp::train {
namespace {

// The settings, after all ranks have compared them.
nlohmann::ordered_json agreed_settings(const TrainOptions& o, dist::DistContext& context) {
  TrainOptions shared = o;
  shared.local_rank = 0;  // the one setting that differs by rank
  nlohmann::ordered_json settings = io::to_json(fields(shared));
  dist::check_settings(settings, context);
  return settings;
}

Machine machine_of(dist::DistContext& context) {
  struct Vote {
    std::int64_t lacks_bf16;
  };
  const Vote all = dist::vote(Vote{core::fastest_bf16() == core::Bf16By::kFloats}, context);
  return {context.device(), context.backend(), all.lacks_bf16 == 0};
}

std::unique_ptr<learners::Learner> new_learner(const Plan& o, const dist::DistContext& context) {
  at::set_num_threads(dist::threads(o.threads, context));
  nets::set_product_precision(o.precision);
  const learners::LearnerOptions options = learner_options(o, context.device());
  if (o.tokens.empty()) return learners::make_learner(options);
  // Each transition of replay has a board of its own, and its next board is another one's own unless the game ended there.
  const std::int64_t boards = replay_capacity(o) / 8 * 9 + 2 * o.num_envs * (o.n_step + 1);
  return learners::make_learner_with_tokens(
      options, token_source(o.tokens, o.obs_spec.view_radius, context.device()), boards);
}

at::Device boards_on(const Plan& o, const dist::DistContext& context) {
  return o.on_device ? context.device() : at::kCPU;
}

// Null if the learner has none.
rollout::Rollout* new_rollout(Session& s) {
  if (!learns_from_rollouts(s.o)) return nullptr;
  const rollout::CollectorOptions c = collector_options(s.o, s.context.rank(), s.league, s.files, 0);
  return &s.rollout.emplace(rollout_options(s.o, s.context.rank()), c,
                            rollout::seats_of(c.rivals, c.num_envs), boards_on(s.o, s.context));
}

rollout::CollectorOptions watched(rollout::CollectorOptions options, std::optional<GameLogger>& recorder) {
  options.watch = [&recorder](const auto&... what) {
    if (recorder) recorder->see(what...);
  };
  return options;
}

std::unique_ptr<Averaging> new_averaging(const Plan& o, learners::Learner& learner,
                                         dist::DistContext& context, SpanTimer& all_reduce) {
  const learners::Average average = [&context, &all_reduce](at::Tensor& gradient) {
    if (context.backend() == "none") return;
    all_reduce.start();
    context.all_reduce_mean(gradient, context.deadline());
    all_reduce.stop();
  };
  if (o.local_updates > 0) return average_weights(learner, o.local_updates, o.outer_momentum, average);
  return average_every_update(average);
}

#ifdef SD_HAVE_CUDA
std::optional<c10::cuda::CUDAStreamGuard> own_stream(at::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  return std::optional<c10::cuda::CUDAStreamGuard>(
      std::in_place, c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()));
}
#endif

std::string settings_line(const Session& s) {
  return fmt::format("Settings hash, the same for the same settings: {:016x}",
                     core::add_to_hash(core::kHashStart, s.settings.dump()));
}

void begin_pipeline(Session& s, std::vector<std::string>& lines) {
  const at::Device device = s.context.device();
  MakeDeviceGraph record;
  if (s.o.records_updates && device.is_cuda()) {
    record = cuda_graphs(device);
  } else if (s.o.records_updates) {
    lines.push_back("No CUDA graph: the learner is on the CPU");
  }
  s.replay.set_draws(s.counters.updates);
  s.pipeline.emplace(PipelineParts{s.o, static_cast<std::uint64_t>(s.o.seed + s.context.rank()), *s.learner,
                                   s.collector, s.replay, s.rollout ? &*s.rollout : nullptr, device, record});
}

// Claims the run's folder, or makes a new one. Returns on rank 0 what to report.
std::vector<std::string> open_folder(Session& s, const Origin& origin, const Launch& launch) {
  const bool main = s.context.is_main();
  if (main) s.writer.emplace(s.o, origin.place.run, s.settings, launch, s.context, origin.identity);
  s.folder = main ? io::absolute_path(s.writer->folder()) : "";
  s.folder = s.context.broadcast_text(s.folder, s.context.deadline());
  s.access = dist::access_to(s.folder, s.context);
  s.checkpoints.emplace(Checkpoints::Plan{s.folder, s.context.rank(), s.context.size(), s.access.sees,
                                          s.o.keeps_replay, static_cast<int>(s.o.keep_checkpoints),
                                          dist::version_text(), s.settings,
                                          main ? s.writer->identity() : ""});
  const std::string blind = dist::blind_ranks(s.access.sees, s.context);
  if (blind.empty()) return {};
  return {
      fmt::format("Ranks that cannot see the run folder: {}. Their boards and replay are not in "
                  "checkpoints. Put --runs_dir where all machines see it",
                  blind)};
}

// Returns on rank 0 what to report. Nothing of the run is written yet: this start may still fail.
std::vector<std::string> resume(Session& s, const Origin& origin, const Launch& launch) {
  std::vector<std::string> lines = open_folder(s, origin, launch);
  const Resumed resumed = resume_from(origin, s.access, s.state(), s.settings, s.votes_every, s.context);
  lines.insert(lines.end(), resumed.lines.begin(), resumed.lines.end());
  s.over = resumed.over;
  s.resumed_at = s.counters.steps;
  if (s.o.lr_end != 1.0) s.learner->scale_rates(rate_factor(s.o, s.counters.steps, s.counters.board_steps));
  if (s.o.checkpoint_interval == 0)
    lines.push_back(fmt::format(
        "No more checkpoints (--checkpoint_interval 0): after step {} there is nothing to resume from",
        s.resumed_at));
  return lines;
}

// Every rank but 0 has a short log beside rank 0's, where it sees the folder.
void open_rank_log(Session& s) {
  if (s.context.is_main() || !s.access.sees) return;
  const std::string path = fmt::format("{}/train.rank{}.log", s.folder, s.context.rank());
  try {
    s.rank_log.emplace(path);
  } catch (const core::FileError&) {  // a folder that this rank may only read
    return;
  }
  dist::log_the_end(path);
  s.note(fmt::format("{}: rank {} of {} on {}, {}, process {}", dist::version_text(), s.context.rank(),
                     s.context.size(), s.context.hosts()[static_cast<std::size_t>(s.context.rank())],
                     s.context.device().str(), getpid()));
  s.note(settings_line(s));
  if (s.resumed_at >= 0) s.note(fmt::format("Resumed from checkpoint step {}", s.resumed_at));
}

// On rank 0: config.json, the reports, game logs.
void open_reports(Session& s, std::vector<std::string> lines) {
  if (s.resumed_at >= 0) {
    io::discard_unfinished(s.folder);  // room for what follows
    io::mark_resumable(s.folder, false);
  }
  const std::string failure = s.writer->write_settings();
  if (!failure.empty()) lines.push_back(failure);
  RunProgress progress;
  progress.episode = s.collector.episodes_ended();
  progress.max_episodes = s.o.max_episodes;
  progress.total_steps = s.o.total_steps;
  progress.seconds = s.counters.seconds;
  progress.board_steps = s.counters.board_steps;
  progress.resumed = s.resumed_at >= 0;
  progress.max_seconds = s.o.max_minutes * 60;
  progress.target_win_rate = s.o.target_win_rate;
  progress.title = fmt::format(
      "{}: {}, {} on {}", core::as_plain(std::filesystem::path(s.folder).filename().string()), s.o.algo,
      core::counted(s.context.size(), "rank"), s.context.device().is_cpu() ? "CPU" : "GPU");
  const auto doing = [&s] {
    const dist::Watchdog::Activity now = s.watchdog.activity();
    return Doing{now.what, std::chrono::duration<double>(now.since).count()};
  };
  s.reporter.emplace(
      s.folder, progress,
      ReporterOptions{s.o.log_every_episode, s.o.step_axis == "env", s.o.learner.actor, doing});
  dist::log_the_end(s.folder + "/train.log");
  if (s.o.record_interval > 0) s.recorder.emplace(s.folder + "/games", s.o, s.collector);
  s.reporter->line(fmt::format("{}: {}", dist::version_text(), dist::ranks_text(s.context)));
  if (s.context.shares_gpus()) s.reporter->line(dist::kSharedGpus);
#ifdef SD_HAVE_CUDA
  if (s.o.device == "auto" && dist::visible_gpus() == 0)
    s.reporter->line("On the CPU: " + dist::why_on_cpu());
#endif
  s.reporter->line("Run folder: " + core::as_plain(s.writer->folder()));
  s.reporter->log_line(settings_line(s));
  if (!s.choices.empty()) s.reporter->line("Chosen for this machine: " + s.choices);
  if (const std::string boards = boards_text(s.o); !boards.empty())
    s.reporter->line("Boards of each rank: " + core::as_plain(boards));
  for (const std::string& line : lines) s.reporter->line(line);
  s.writer->has_begun();
}

void tell_over(const Session& s, const std::vector<std::string>& lines) {
  if (!s.writer) return;
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  core::print_result(fmt::format("{}Run folder: {}\nNothing to do, the run is finished: {}\n", text,
                                 s.writer->folder(), s.over));
}

// Names the command, where this process knows how it was started: train_ddp.sh says it in a variable.
std::string how_to_continue(const Session& s) {
  const std::string resume = "--resume " + core::as_plain(s.writer->folder());
  const char* const script = std::getenv("SNAKE_DDP_SCRIPT");
  if (script != nullptr) return fmt::format("Continue with: {} {}", script, resume);
  if (s.world.alone()) return fmt::format("Continue with: {} {}", ::program_invocation_name, resume);
  return fmt::format("Continue with the same launch and {}", resume);
}

// Returns why actor and critic could not be saved; empty if they are.
std::string save_at_end(Session& s, std::int64_t episode) {
  try {
    mend_folder(s);
    s.writer->save(*s.learner, std::to_string(s.o.model_episode + episode));
    return {};
  } catch (const core::FileError& e) {
    return fmt::format("actor and critic are not saved: {}", e.what());
  }
}

}  // namespace

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Session::Session(const TrainOptions& options, const dist::World& world_of, const Watch& watch_of,
                 std::chrono::milliseconds patience)
    : world(world_of),
      watch(watch_of),
      ranks(world, {options.dist_backend, options.device, options.join_timeout, options.dist_timeout,
                    dist::build_text(), patience}),
      all_settings(chosen(options, machine_of(context))),
      o(all_settings),
      choices(choices_text(options, all_settings)),
      settings(agreed_settings(all_settings, context)),
      votes_every(vote_interval(o)),
#ifdef SD_HAVE_CUDA
      stream(own_stream(context.device())),
#endif
      learner(new_learner(o, context)),
      replay(rollout::with_boards(learner->columns(), o.obs_spec), replay_capacity(o), boards_on(o, context)),
      files(o, boards_on(o, context)),
      league(league_options(o, &files, boards_on(o, context))),
      collector(
          watched(collector_options(o, context.rank(), league, files, learner->policy().memory()), recorder),
          replay, new_rollout(*this), votes_every),
      all_reduce(context.device()),
      averaging(new_averaging(o, *learner, context, all_reduce)),
      stats(context.device()) {
  context.check_same("what the files of --opponent_mix hold", files.text(), context.deadline());
  const Launch launch = launch_of(world, context);
  const Origin origin = origin_of(o, launch, context);
  std::vector<std::string> lines = origin.lines;
  const auto add = [&](const std::vector<std::string>& more) {
    lines.insert(lines.end(), more.begin(), more.end());
  };
  const bool resumes = !origin.place.run.empty();
  add(files.remarks());
  if (resumes) {
    add(resume(*this, origin, launch));
    if (!over.empty()) {
      tell_over(*this, lines);
      return;
    }
  } else {
    counters.board_steps = 0;
    if (const auto found = weights_to_load(o)) add(load_weights(o, *found, *learner));
    share_weights(*learner, context);
  }
  averaging->begin();
  jobs = schedule(*this);
  // As at the last vote.
  collector.deal(rivals_of(o, context.rank(), league, counters.steps / votes_every * votes_every));
  begin_pipeline(*this, lines);
  // A rank that cannot begin has failed by now. Only then is a new run's folder made, or an old one's written to.
  context.barrier("the beginning", context.deadline());
  if (!resumes) add(open_folder(*this, origin, launch));
  if (writer) open_reports(*this, lines);
  open_rank_log(*this);
  start = counters;
  appended_before = pipeline->count().replay_appended;
  reported.steps = counters.steps;
  reported.updates = counters.updates;
}

void Session::note(const std::string& line) {
  if (!rank_log) return;
  try {
    rank_log->line(line);
  } catch (const core::FileError&) {  // the disk is full: training goes on without it, as on rank 0
    rank_log.reset();
  }
}

core::ExitCode end(Session& s) {
  const bool stopped = s.agreed.stop > 0 && !s.agreed.is_finished;
  const std::int64_t episode = s.pipeline->count().episodes_ended;
  if (s.o.check_consistency > 0)
    s.context.check_same("weights at the end", state_hash(*s.learner), s.context.deadline());
  const bool resumable = stopped && s.o.checkpoint_interval > 0;
  // Before everything else: a full disk may have room for this, and nothing else is worth as much.
  const std::string no_checkpoint = write_last_checkpoint(s);
  s.note(fmt::format("{} at step {} after {}, {}", stopped ? "Stopped by a signal" : "Finished",
                     s.counters.steps, core::counted(s.counters.updates, "update"),
                     core::counted(episode, "episode")));
  if (s.writer && resumable && no_checkpoint.empty()) io::mark_resumable(s.folder, true);
  const std::string unsaved = s.writer ? save_at_end(s, episode) : "";
  if (!no_checkpoint.empty())
    throw core::FileError(
        fmt::format("no final checkpoint: {}{}", no_checkpoint, unsaved.empty() ? "" : "; " + unsaved));
  // A checkpoint holds them, too; a run that is done or keeps none has nothing else to show.
  if (!unsaved.empty() && !resumable)
    throw core::FileError(unsaved +
                          (s.o.checkpoint_interval > 0 ? " --resume " + s.folder + " saves them" : ""));
  if (s.writer) {
    const std::string saved = unsaved.empty() ? "actor and critic are saved" : unsaved,
                      how_on =
                          resumable
                              ? how_to_continue(s)
                              : "Without checkpoints (--checkpoint_interval 0) the run cannot be resumed";
    s.reporter->line(stopped ? fmt::format("Stopped by a signal at episode {}; {}{} {}", episode, saved,
                                           saved.ends_with('.') ? "" : ".", how_on)
                             : fmt::format("Training completed! {}, {}, {} in {:.1f} min",
                                           core::counted(episode, "episode"),
                                           core::counted(s.counters.board_steps, "step"),
                                           core::counted(s.counters.updates, "update"), s.seconds() / 60));
  }
  const std::string line = fingerprint_line(*s.learner, s.collector, s.pipeline->last_batch(), s.context);
  if (s.reporter) {
    s.reporter->line(line);
    if (s.agreed.collected.env_steps > 0) s.reporter->collected(episode, s.agreed.collected);
    s.reporter->flush();
  }
  s.watchdog.tick("leaving");
  s.context.barrier("end of training", s.context.deadline());
  if (!stopped) return core::kExitDone;
  return dist::exit_code_after_stop(resumable ? core::kExitResumable : core::kExitFile);
}

}  // namespace snake_ddp::train
