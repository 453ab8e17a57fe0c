// A run on one rank: everything that the loop (loop.cpp) and its periodic jobs (periodic.hpp) work with.
#pragma once

#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDAGuard.h>
#endif

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dist/ranks.hpp"
#include "dist/shared_folder.hpp"
#include "io/log_file.hpp"
#include "late_stats.hpp"
#include "periodic.hpp"
#include "pipeline.hpp"
#include "run_writer.hpp"
#include "snake_ddp/core/error.hpp"
#include "span_timer.hpp"
#include "train/averaging.hpp"
#include "train/checkpoints.hpp"
#include "train/file_teams.hpp"
#include "train/game_logger.hpp"
#include "train/league.hpp"
#include "train/loop.hpp"
#include "train/plan.hpp"
#include "train/reporter.hpp"

namespace snake_ddp::train {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin);

/// The last report.
struct Reported {
  bool first_update = false;
  int level = 0;  // of the last opponent
  Clock::time_point at = Clock::now();
  std::int64_t steps = 0, updates = 0;
  std::vector<RankStats> rank_stats;  // of the vote before it
  Clock::time_point rank_stats_at{};
};

struct Session {
  /// Joins the other ranks and makes a run ready: a new one, or one that is resumed.
  /// Collective.
  Session(const TrainOptions& options, const dist::World& world, const Watch& watch,
          std::chrono::milliseconds patience);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] RunState state() {
    return {*learner, collector, replay, counters, league, *averaging, files, rollout ? &*rollout : nullptr};
  }
  /// Seconds of training, earlier starts included.
  [[nodiscard]] double seconds() const { return start.seconds + seconds_since(begin); }
  /// A line in train.rank{R}.log. Every rank but 0 has one if it sees the folder and may write there.
  void note(const std::string& line);

  const dist::World world;
  const Watch watch;
  dist::Ranks ranks;
  dist::DistContext& context = ranks.context;
  dist::Watchdog& watchdog = ranks.watchdog;
  const TrainOptions all_settings;  // with what was chosen
  const Plan o;
  const std::string choices;  // of the program, where the user left them to it
  const nlohmann::ordered_json settings;
  const std::int64_t votes_every;

#ifdef SD_HAVE_CUDA
  // Before the learner, whose weights are written on this stream. The default stream cannot be recorded.
  const std::optional<c10::cuda::CUDAStreamGuard> stream;
#endif
  const std::unique_ptr<learners::Learner> learner;
  learners::Buffer replay;
  std::optional<rollout::Rollout> rollout;  // of learners that have one, where the boards are
  std::optional<GameLogger> recorder;       // rank 0's
  const FileTeams files;
  League league;
  rollout::Collector collector;
  Counters counters;
  std::optional<Pipeline> pipeline;
  Reported reported;
  SpanTimer all_reduce;
  const std::unique_ptr<Averaging> averaging;
  LateStats stats;

  std::string folder;  // rank 0 writes it, all ranks know it
  dist::Access access;
  std::optional<RunWriter> writer;      // rank 0's
  std::optional<Reporter> reporter;     // rank 0's
  std::optional<io::LogFile> rank_log;  // of every other rank
  std::optional<Checkpoints> checkpoints;
  std::int64_t resumed_at = -1;  // step of the checkpoint
  std::string over;              // why there is nothing left to do: the run that is resumed is finished

  Counters start;  // at this start
  std::int64_t appended_before = 0;
  Clock::time_point begin = Clock::now();
  Collected collected;  // of this rank, except what is counted elsewhere
  std::vector<Scheduled> jobs;
  RankStats rank_stats;  // of this rank
  Clock::time_point measured_at{};
  std::int64_t voted_us = 0;
  Agreement agreed;
};

/// Of tensors on a GPU; 0 on the CPU.
double gpu_memory_mb(const at::Device& device);

/// Step 4 of the loop, on rank 0: the games that ended, and once a second rates and the learner's numbers.
void report(Session& s, const std::vector<rollout::Episode>& ended);

/// Ends the run: the last checkpoint, actor and critic, the fingerprint.
/// Collective.
/// Returns     as run_training.
/// Throws      FileError.
core::ExitCode end(Session& s);

}  // namespace snake_ddp::train
