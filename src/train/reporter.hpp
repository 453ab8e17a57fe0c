// A run's reports: console, progress bar, train.log, metrics.jsonl, TensorBoard. Rank 0 only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/event_writer.hpp"
#include "io/log_file.hpp"
#include "io/metrics.hpp"
#include "learners/update_stats.hpp"
#include "rollout/collector.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/play/match.hpp"
#include "train/counters.hpp"
#include "train/league.hpp"
#include "train/live_view.hpp"

namespace snake_ddp::train {

/// Rates since the last report.
struct Pace {
  double env_steps_per_s = 0;
  double updates_per_s = 0;
  // Mean time of one gradient all-reduce, measured on the learner's device, and the share of the time since the last
  // report that all took: 0 with one rank; nothing if a recording hides them.
  std::optional<double> allreduce_ms = 0.0, allreduce_share = 0.0;
  double memory_mb = 0;  // main memory of this process
  double gpu_memory_mb = 0;
};

struct ReporterOptions {
  bool every_episode = false;  // printed, as the Python trainer does, in place of a line every few seconds
  bool by_steps = false;       // TensorBoard's curves go by steps of boards, not by episodes
  bool has_actor = false;      // the learner
  std::function<Doing()> doing{};  // called by another thread
};

/// A file that cannot be written is reported on the console once, and again when it can be written; training
/// continues.
class Reporter {
 public:
  /// `begin` has the limits of the run, and what earlier starts have used of them.
  /// Throws  FileError if the run folder cannot be written.
  Reporter(const std::string& folder, const RunProgress& begin, const ReporterOptions& options);

  /// Steps of the boards of all ranks so far; those of the next reports.
  void steps(std::int64_t steps) { progress_.board_steps = steps; }

  /// A line on the console and in train.log.
  void line(const std::string& text);
  /// A line in train.log alone.
  void log_line(const std::string& text);

  /// Whether a report with rates is due (once a second).
  [[nodiscard]] bool due() const;

  /// An episode that ended: its points, and what the console shows of it when that is due. `stats` is null
  /// before the first update.
  void episode(const rollout::Episode& episode, int difficulty, bool evasion,
               const learners::UpdateStats* stats);

  /// Rates and the learner's numbers; call when due().
  void pace(std::int64_t episode, const Pace& pace, const learners::UpdateStats* stats, double epsilon,
            int difficulty, std::int64_t replay_size);

  /// What the ranks said of themselves since the last call; drawn with the next report.
  void ranks(std::vector<RankState> ranks);

  void evaluation(std::int64_t episode, const std::string& opponent, const play::MatchResult& result);

  /// What all ranks have collected: sums since the start, means over the games that ended since the last
  /// call.
  void collected(std::int64_t episode, const Collected& all);

  /// `members`: as they were before the judgement.
  void league(const std::vector<LeagueMember>& members, const Judgement& judgement);

  /// Passes all points to the system; so no checkpoint is ahead of them.
  void push_points();

  /// Throws  FileError if what is still buffered cannot be written.
  void flush();

  /// New files in place of removed ones.
  /// Throws  FileError.
  void begin_files_anew();

 private:
  using Clock = std::chrono::steady_clock;
  class Report;
  template <class Write>
  void try_to(bool& failing, const char* again, Write write);
  [[nodiscard]] std::string episode_text(const rollout::Episode& episode, int total,
                                         const learners::UpdateStats* stats) const;
  [[nodiscard]] double seconds() const;
  void draw(std::int64_t episode);

  std::string folder_;
  std::optional<io::LogFile> log_;
  io::EventWriter events_;
  io::MetricsWriter metrics_;
  core::Console console_{1, "; all are in train.log"};
  bool log_failing_ = false, events_failing_ = false, metrics_failing_ = false;
  std::string last_game_;  // for the live view
  RunProgress progress_;
  const RunProgress first_;  // at this start
  Collected reported_;
  double recent_games_ = 0, recent_wins_ = 0, best_evaluation_ = 0;
  bool every_episode_, has_actor_, by_steps_;
  Clock::time_point begin_ = Clock::now(), last_shown_{}, last_pace_ = Clock::now();
  LiveView view_;  // of the console
};

}  // namespace snake_ddp::train
