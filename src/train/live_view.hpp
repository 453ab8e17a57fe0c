// What a terminal shows of a run: a bar, or a screen that is redrawn.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "snake_ddp/core/console.hpp"

namespace snake_ddp::train {

/// A number over time, drawn as a line of text height (Tufte's sparkline). Keeps at most 256 values: then neighbours
/// are merged into their mean.
class Sparkline {
 public:
  void add(double value);
  /// One character for each of at most `cells` means of neighbours, oldest first; `low` and `high` are the lowest and
  /// the highest line.
  [[nodiscard]] std::string drawn(std::size_t cells, double low, double high, bool utf8) const;
  /// A curve with the least and the greatest of the drawn values.
  [[nodiscard]] std::string drawn(std::size_t cells, bool utf8) const;

 private:
  [[nodiscard]] std::vector<double> cells_of(std::size_t cells) const;
  std::vector<double> means_;
  double sum_ = 0;
  std::size_t count_ = 0, span_ = 1;  // of the current mean; values per mean
};

struct RankState {
  std::string host;
  std::optional<double> own_work;  // share of its time in which it did not wait for others; nothing on a GPU
  double memory_mb = 0;
};

/// A run's progress and its limits. All counts include what was done before a --resume; sparklines do not.
struct RunProgress {
  std::int64_t episode = 0, max_episodes = 1;  // of this rank
  double episodes_per_s = 0;                   // 0: not known yet
  double seconds = 0, max_seconds = 0;         // max 0: no limit
  std::int64_t board_steps = 0;                // of all ranks
  std::int64_t total_steps = 0;                // its limit, in place of the episodes'; 0: none
  bool resumed = false;                        // this start continues an earlier one
  std::optional<double> win_rate;
  bool evaluated = false;      // the win rate is the last evaluation's, otherwise that of training games
  double target_win_rate = 0;  // 0: none
  std::optional<double> steps_per_s;

  // For the screen.
  std::string title;
  Sparkline evaluations, training_wins, elo, critic_loss;
  std::string evaluation, training, league, losses, speed;  // their texts; empty: nothing yet
  std::vector<RankState> ranks;                             // in order; empty: one
};

/// What the run is doing.
struct Doing {
  const char* what = "";
  double seconds = 0;        // since it began with that
  double quiet_seconds = 0;  // since the last report
};

/// As " / 95", for a target win rate; empty without one.
std::string target_text(const RunProgress& progress);

/// As "12.3k", for a rate per second.
std::string rate_text(double rate);

/// As "05:00" or "2d 3h".
std::string clock_text(double seconds);

/// A bar of fewer than `columns` characters: `what`, the share in percent and drawn, then as many of `pieces` as fit, the
/// most important first.
std::string bar_line(const std::string& what, double share, const std::vector<std::string>& pieces,
                     int columns);

/// The bar, fewer than `columns` characters: progress and time left by the limit that will end the run first, then
/// win rate and speed if they are known and fit.
std::string bar_text(const RunProgress& progress, int columns);

/// The screen: lines of fewer than `columns` characters, a title first, then one per known quantity. `doing` is shown
/// after three seconds without a report.
std::string screen_text(const RunProgress& progress, const Doing& doing, int columns, bool utf8);

/// Draws what fits the console's terminal: the screen from 60 columns and 16 rows on, otherwise the bar.
/// A thread redraws each second, so that the screen shows when nothing progresses.
/// Threads  only one thread calls it.
class LiveView {
 public:
  /// `console` must outlive the view. `doing` is called by the thread.
  LiveView(core::Console& console, std::function<Doing()> doing);
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  void show(const RunProgress& progress);
  /// Removes it from the terminal for good.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void draw();

  core::Console& console_;
  const core::Abilities abilities_ = core::abilities();
  const std::function<Doing()> doing_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::optional<RunProgress> shown_;
  Clock::time_point shown_at_;
  std::thread thread_;
};

}  // namespace snake_ddp::train
