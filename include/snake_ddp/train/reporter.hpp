// What a person sees of a run: console, progress bar, train.log, TensorBoard. Rank 0 only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "snake_ddp/base/console.hpp"
#include "snake_ddp/io/event_writer.hpp"
#include "snake_ddp/io/log_file.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/rollout/collector.hpp"
#include "snake_ddp/rollout/match.hpp"
#include "snake_ddp/train/collected.hpp"
#include "snake_ddp/train/league.hpp"

namespace snake_ddp::train {

/// Rates since the last report.
struct Pace {
  double env_steps_per_s = 0;
  double updates_per_s = 0;
  double allreduce_ms = 0;  // mean time of one gradient all-reduce, 0 with one rank
  double gpu_memory_mb = 0;
};

/// A file that cannot be written under way is told on the console, once, and again when it can; training goes on.
class Reporter {
 public:
  /// `episode` and `seconds` are what the run has behind it already.
  /// Throws  FileError when the run folder cannot be written.
  Reporter(const std::string& folder, std::int64_t max_episodes, bool every_episode, std::int64_t episode = 0,
           double seconds = 0);

  /// A line on the console and in train.log.
  void line(const std::string& text);

  /// Whether a report with rates is due (once a second).
  [[nodiscard]] bool due() const;

  /// An episode that ended: its TensorBoard points, and a console block when one is due. `stats` is null
  /// before the first update.
  void episode(const rollout::Episode& episode, int difficulty, bool evasion,
               const learners::UpdateStats* stats);

  /// Rates and the learner's numbers; call when due().
  void pace(std::int64_t episode, const Pace& pace, const learners::UpdateStats* stats, double epsilon,
            int difficulty, std::int64_t replay_size);

  void evaluation(std::int64_t episode, const std::string& opponent, const rollout::MatchResult& result);

  /// What all ranks have collected, to TensorBoard: sums since the start, means over the games that ended since the last
  /// call.
  void collected(std::int64_t episode, const Collected& all);

  /// `members`: as they were before the judgement.
  void league(const std::vector<LeagueMember>& members, const Judgement& judgement);

  /// Throws  FileError: what is still to be written cannot be.
  void flush();

  /// New files in the place of those that somebody removed.
  /// Throws  FileError.
  void begin_files_anew();

 private:
  using Clock = std::chrono::steady_clock;
  template <class Write>
  void try_to(bool& failing, const char* again, Write write);
  void push_points();
  void draw_bar(std::int64_t episode);

  std::string folder_;
  std::optional<io::LogFile> log_;
  io::EventWriter events_;
  base::Console console_{1, "; all are in train.log"};
  bool log_failing_ = false, events_failing_ = false;
  std::int64_t max_episodes_, first_episode_;
  double seconds_before_;
  Collected told_;
  bool every_episode_;
  Clock::time_point begin_ = Clock::now(), last_block_{}, last_pace_ = Clock::now();
};

}  // namespace snake_ddp::train
