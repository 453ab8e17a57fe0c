#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "snake_ddp/app/bench_game.hpp"
#include "snake_ddp/app/bench_learner.hpp"
#include "snake_ddp/app/command_line.hpp"
#include "snake_ddp/base/error.hpp"

namespace snake_ddp::app {
namespace {

struct Line {
  std::string what;
  double seconds = 1.0;
  std::vector<std::int64_t> batch_sizes = {128, 1024, 4096};
  bool json = false;
};

}  // namespace

Action add_bench(CLI::App& command) {
  const auto line = std::make_shared<Line>();
  command.add_option("what", line->what, "game, encode, act or update; all without it")
      ->check(CLI::IsMember({"game", "encode", "act", "update"}));
  command.add_option("--seconds", line->seconds, "time for each measurement")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  command
      .add_option("--batch_size,--batch-size", line->batch_sizes,
                  "batch sizes of the update bench [128 1024 4096]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  command.add_flag("--json", line->json, "one JSON object on stdout");
  return [line]() -> int {
    std::vector<BenchRow> rows;
    const auto add = [&](const std::vector<BenchRow>& more) {
      rows.insert(rows.end(), more.begin(), more.end());
    };
    if (line->what.empty() || line->what == "game") add(bench_game(line->seconds));
    if (line->what.empty() || line->what == "encode") add(bench_encode(line->seconds));
    if (line->what.empty() || line->what == "act") add(bench_opponents(line->seconds));
    if (line->what.empty() || line->what == "update") add(bench_update(line->seconds, line->batch_sizes));
    if (line->json) {
      nlohmann::ordered_json benches = nlohmann::ordered_json::array();
      for (const BenchRow& r : rows) {
        benches.push_back(
            {{"name", r.name}, {"value", r.value}, {"unit", r.unit}, {"limit", r.limit}, {"ratio", r.ratio}});
      }
      fmt::print("{}\n", nlohmann::ordered_json{{"benches", benches}}.dump());
      return base::kExitDone;
    }
    fmt::print("{:<44} {:>14} {:<16} {:>14} {:>7}\n", "bench", "value", "unit", "limit", "ratio");
    for (const BenchRow& r : rows) {
      fmt::print("{:<44} {:>14.4g} {:<16} {:>14.4g} {:>7.3f}\n", r.name, r.value, r.unit, r.limit, r.ratio);
    }
    return base::kExitDone;
  };
}

}  // namespace snake_ddp::app
