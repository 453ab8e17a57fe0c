// What a run's folder records: its settings, curves and log. Reads only; the run may still be active.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace snake_ddp::train {

/// Points of one TensorBoard tag, oldest first.
struct Curve {
  std::vector<double>
      time;  // seconds since 1970; where a clock was set back between two starts, later than it said
  std::vector<std::int64_t> episode;
  std::vector<float> value;
};

/// Tags that a start of the program begins with if it continues a run: board steps of all ranks and seconds of training until then.
inline constexpr const char *kEarlierSteps = "collect/earlier_steps",
                            *kEarlierSeconds = "collect/earlier_seconds";

/// From a start of the program to its last valid point. Stretches follow each other.
struct Stretch {
  double begin = 0, end = 0;  // seconds since 1970
  double seconds = 0;         // of training before it
  double steps = -1;          // likewise, board steps of all ranks; -1: not recorded
};

struct LogLine {
  double time = 0;   // seconds since 1970
  std::string text;  // without continuation lines
};

struct History {
  nlohmann::ordered_json settings;  // config.json
  std::map<std::string, Curve> curves;
  std::vector<Stretch> stretches;
  std::vector<LogLine> log;
  std::vector<std::string> damage;  // what could not be read, and why
  bool is_running = false;          // a process holds the folder's lock

  /// Minutes of training up to this time; breaks between two starts do not count.
  [[nodiscard]] double minutes(double time) const;
};

/// Points that a restart made void are left out, as in TensorBoard.
/// Throws  FileError for a folder without a readable config.json. Other files may be missing or damaged.
History read_history(const std::string& folder);

}  // namespace snake_ddp::train
