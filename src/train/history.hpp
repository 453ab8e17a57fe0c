// What a run's folder records: its settings, reports and log. Reads only; the run may still be active.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace snake_ddp::train {

/// Where in a run something was: breaks between two starts do not count.
struct Moment {
  double minutes = 0;      // of training
  std::int64_t steps = 0;  // of the boards of all ranks
  std::int64_t episode = 0;
};

/// Points of one TensorBoard tag, oldest first.
struct Curve {
  std::vector<Moment> at;
  std::vector<double> value;
};

struct Evaluated {
  Moment at;
  double win_rate = 0;
  std::int64_t games = 0;
  std::string opponent;
};

/// The learner's Elo in the league, and its 95 % interval.
struct Rated {
  Moment at;
  double elo = 0, low = 0, high = 0;
};

struct LogLine {
  double time = 0;   // seconds since 1970
  std::string text;  // without continuation lines
};

struct History {
  nlohmann::ordered_json settings;  // config.json
  std::map<std::string, Curve> curves;
  std::vector<Evaluated> evaluations;
  std::vector<Rated> ratings;
  std::vector<LogLine> log;
  std::vector<std::string> damage;  // what could not be read, and why
  bool is_running = false;          // a process holds the folder's lock

  // Of each report, and its time. A clock that was set back counts as one that stood still.
  std::vector<Moment> moments;
  std::vector<double> times;

  /// Where the run was at this time: between two reports steps are interpolated.
  [[nodiscard]] Moment moment_at(double time) const;
};

/// Throws  FileError for a folder without a readable config.json. Other files may be missing or damaged.
History read_history(const std::string& folder);

}  // namespace snake_ddp::train
