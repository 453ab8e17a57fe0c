// The data of the report page, as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace snake_ddp::app {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string preset;              // settings are compared with this file's; empty: with the defaults
  std::string champion;            // an actor's file; empty: none
  std::int64_t ladder_games = 16;  // against each team; 0: no ladder
};

/// Curves, evaluations, marks of the time line, notable lines of the log, settings that differ, the ladder and the
/// last evaluation's games of each run; docs/reference/commands.md has the keys.
/// Throws  UsageError for a preset that cannot be used; FileError for a folder that is not a run's.
nlohmann::ordered_json report_data(const ReportOptions& options);

}  // namespace snake_ddp::app
