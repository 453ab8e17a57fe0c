// bench [NAME] FLAGS: measures speed and compares it with its bounds.
#include <ATen/Context.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "benches.hpp"
#include "jobs.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::bench {
namespace {

struct Line {
  std::string what;
  double seconds = 1.0;
  int rounds = 3;
  int ranks = 2;
  int busy = 0;
  std::string config;
  std::string algo;
  std::vector<std::int64_t> batch_sizes;
  std::vector<std::int64_t> boards;
  std::string device = "cpu", products;
  bool json = false;
  std::string job, job_settings, job_result;
  int job_parent = 0;
};

using Rows = std::vector<Row>;

struct NamedBench {
  const char* name;
  Rows (*run)(const Line&);
};

Rows game_rows(const Line& l) {
  if (l.device == "cpu") return measure_game(l.seconds);
  std::vector<std::int64_t> boards = l.boards;
  // A million boards do not fit in the second-level cache of any device.
  if (boards.empty())
    boards =
        l.device == "cuda" ? std::vector<std::int64_t>{65'536, 1'048'576} : std::vector<std::int64_t>{4096};
  return measure_device_game(l.seconds, boards, device_named(l.device));
}

Rows update_rows(const Line& l) {
  std::vector<std::int64_t> sizes = l.batch_sizes;
  if (sizes.empty() && l.config.empty()) sizes = {128, 1024, 4096};
  if (l.device == "cpu") return measure_update(l.seconds, sizes, l.config, l.algo, l.products);
  return measure_device_update(l.seconds, sizes, device_named(l.device), l.config, l.algo, l.products);
}

// Benches that start processes come first: the others leave LibTorch's threads running.
constexpr NamedBench kBenches[] = {
    {"allreduce", [](const Line& l) { return measure_allreduce(l.seconds, l.rounds, l.ranks, l.config); }},
    {"train", [](const Line& l) { return measure_train(l.seconds, l.rounds, l.ranks, l.busy, l.config); }},
    {"game", game_rows},
    {"encode", [](const Line& l) { return measure_encode(l.seconds); }},
    {"act", [](const Line& l) { return measure_opponents(l.seconds); }},
    {"search", [](const Line& l) { return measure_search(l.seconds, l.products); }},
    {"update", update_rows},
};

struct NamedJob {
  const char* name;
  JobAction action;
};

constexpr NamedJob kJobs[] = {
    {"allreduce", allreduce_job},
    {"everything", everything_job},
    {"run", run_job},
};

template <class Table>
auto names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return names;
}

void print(const Rows& rows, bool as_json) {
  if (as_json) {
    nlohmann::ordered_json benches = nlohmann::ordered_json::array();
    for (const Row& r : rows) {
      benches.push_back(
          {{"name", r.name}, {"value", r.value}, {"unit", r.unit}, {"limit", r.limit}, {"ratio", r.ratio}});
    }
    core::print_result(fmt::format("{}\n", nlohmann::ordered_json{{"benches", benches}}.dump()));
    return;
  }
  core::print_result(
      fmt::format("{:<44} {:>14} {:<16} {:>14} {:>7}\n", "bench", "value", "unit", "limit", "ratio"));
  for (const Row& r : rows)
    core::print_result(fmt::format("{:<44} {:>14.4g} {:<16} {:>14.4g} {:>7.3f}\n", r.name, r.value, r.unit,
                                   r.limit, r.ratio));
}

int run(int argc, char** argv) {
  Line line;
  CLI::App program("Measures speed and compares it with its bounds", "bench");
  program
      .add_option("what", line.what, fmt::format("{}; by default all", fmt::join(names_of(kBenches), ", ")))
      ->check(CLI::IsMember(names_of(kBenches)));
  program.add_option("--seconds", line.seconds, "seconds per measurement")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  program
      .add_option("--batch_size", line.batch_sizes,
                  "batch sizes of the update bench [128 1024 4096, or that of --config]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  program.add_option("--ranks", line.ranks, "ranks in the benches allreduce and train")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  program
      .add_option("--rounds", line.rounds, "rounds of these two benches within --seconds; rows show medians")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  program
      .add_option("--busy", line.busy, "other processes that each keep a core busy during the train bench")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  program.add_option("--config", line.config,
                     "JSON file with the settings of their runs, and of update's learner [the reference's]");
  program.add_option("--algo", line.algo, "the update bench's learner [that of --config]");
  program
      .add_option("--device", line.device,
                  "where the game and update benches run: cpu, cuda, or pieces (the device code on the CPU)")
      ->check(CLI::IsMember({"cpu", "cuda", "pieces"}))
      ->capture_default_str();
  program
      .add_option("--boards", line.boards,
                  "numbers of boards in the game bench on a device [65536 1048576, or 4096 with pieces]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  program
      .add_option("--products", line.products,
                  "precision of the products in the benches update and search: float32, tf32, bf16 [that of "
                  "--config]")
      ->check(CLI::IsMember({"float32", "tf32", "bf16"}));
  program.add_flag("--json", line.json, "one JSON object on stdout");
  // The job of a bench's own child process; see jobs.hpp.
  program.add_option("--job", line.job)->group("")->check(CLI::IsMember(names_of(kJobs)));
  program.add_option("--job_parent", line.job_parent)->group("");
  program.add_option("--job_settings", line.job_settings)->group("");
  program.add_option("--job_result", line.job_result)->group("");
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return program.exit(e) == 0 ? core::kExitDone : core::kExitUsage;
  }
  for (const NamedJob& job : kJobs)
    if (line.job == job.name)
      return do_job(job.action, line.ranks, line.job_parent, line.job_settings, line.job_result,
                    {argv + 1, argv + argc});
  Rows rows;
  for (const NamedBench& bench : kBenches) {
    if (!line.what.empty() && line.what != bench.name) continue;
    const Rows more = bench.run(line);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  print(rows, line.json);
  return core::kExitDone;
}

}  // namespace
}  // namespace snake_ddp::bench

int main(int argc, char** argv) {
  at::globalContext().setFlushDenormal(true);  // as snake_ddp does
  try {
    return snake_ddp::bench::run(argc, argv);
  } catch (const snake_ddp::core::Error& e) {
    snake_ddp::core::tell_error(fmt::format("bench: {}", e.what()));
    return e.exit_code();
  }
}
