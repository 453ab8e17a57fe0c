#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "snake_ddp/app/command_line.hpp"
#include "snake_ddp/base/console.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/bench/benches.hpp"
#include "snake_ddp/bench/jobs.hpp"

namespace snake_ddp::app {
namespace {

struct BenchLine {
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

using Rows = std::vector<bench::Row>;

struct Bench {
  const char* name;
  Rows (*run)(const BenchLine&);
};

Rows game_rows(const BenchLine& l) {
  if (l.device == "cpu") return bench::measure_game(l.seconds);
  std::vector<std::int64_t> boards = l.boards;
  // A million boards do not fit in the second-level cache of any device.
  if (boards.empty())
    boards =
        l.device == "cuda" ? std::vector<std::int64_t>{65'536, 1'048'576} : std::vector<std::int64_t>{4096};
  return bench::measure_device_game(l.seconds, boards, bench::device_named(l.device));
}

Rows update_rows(const BenchLine& l) {
  std::vector<std::int64_t> sizes = l.batch_sizes;
  if (sizes.empty() && l.config.empty()) sizes = {128, 1024, 4096};
  if (l.device == "cpu") return bench::measure_update(l.seconds, sizes, l.config, l.algo, l.products);
  return bench::measure_device_update(l.seconds, sizes, bench::device_named(l.device), l.config, l.algo,
                                      l.products);
}

// Benches that start processes come first: the others leave LibTorch's threads running.
constexpr Bench kBenches[] = {
    {"allreduce",
     [](const BenchLine& l) { return bench::measure_allreduce(l.seconds, l.rounds, l.ranks, l.config); }},
    {"train",
     [](const BenchLine& l) { return bench::measure_train(l.seconds, l.rounds, l.ranks, l.busy, l.config); }},
    {"memory", [](const BenchLine& l) { return bench::measure_memory(l.rounds, l.ranks, l.config); }},
    {"start", [](const BenchLine& l) { return bench::measure_start(l.rounds, l.ranks, l.config); }},
    {"game", game_rows},
    {"encode", [](const BenchLine& l) { return bench::measure_encode(l.seconds); }},
    {"act", [](const BenchLine& l) { return bench::measure_opponents(l.seconds); }},
    {"search", [](const BenchLine& l) { return bench::measure_search(l.seconds, l.products); }},
    {"update", update_rows},
    {"checkpoint", [](const BenchLine& l) { return bench::measure_checkpoint(l.seconds); }},
};

struct NamedJob {
  const char* name;
  bench::JobAction action;
};

constexpr NamedJob kJobs[] = {
    {"allreduce", bench::allreduce_job}, {"everything", bench::everything_job}, {"run", bench::run_job},
    {"bare", bench::bare_job},           {"memory", bench::memory_job},         {"start", bench::start_job},
};

std::vector<std::string> bench_names() {
  std::vector<std::string> names;
  for (const Bench& bench : kBenches) names.emplace_back(bench.name);
  return names;
}

bench::JobAction job_named(const std::string& name) {
  for (const NamedJob& job : kJobs) {
    if (job.name == name) return job.action;
  }
  throw base::UsageError(fmt::format("unknown job \"{}\" of bench", name));
}

void print(const Rows& rows, bool as_json) {
  if (as_json) {
    nlohmann::ordered_json benches = nlohmann::ordered_json::array();
    for (const bench::Row& r : rows) {
      benches.push_back(
          {{"name", r.name}, {"value", r.value}, {"unit", r.unit}, {"limit", r.limit}, {"ratio", r.ratio}});
    }
    base::print_result(fmt::format("{}\n", nlohmann::ordered_json{{"benches", benches}}.dump()));
    return;
  }
  base::print_result(
      fmt::format("{:<44} {:>14} {:<16} {:>14} {:>7}\n", "bench", "value", "unit", "limit", "ratio"));
  for (const bench::Row& r : rows)
    base::print_result(fmt::format("{:<44} {:>14.4g} {:<16} {:>14.4g} {:>7.3f}\n", r.name, r.value, r.unit,
                                   r.limit, r.ratio));
}

}  // namespace

Action add_bench(CLI::App& command, const std::vector<std::string>& arguments) {
  const auto line = std::make_shared<BenchLine>();
  command.add_option("what", line->what, fmt::format("{}; by default all", fmt::join(bench_names(), ", ")))
      ->check(CLI::IsMember(bench_names()));
  add_number(command, "seconds", line->seconds, "seconds per measurement", 0.01, 3600.0);
  command
      .add_option("--batch_size,--batch-size", line->batch_sizes,
                  "batch sizes of the update bench [128 1024 4096, or that of --config]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  add_number(command, "ranks", line->ranks, "ranks in the benches allreduce, train, memory and start", 1,
             256);
  add_number(command, "rounds", line->rounds,
             "rounds of these four benches within --seconds; rows show medians", 1, 1000);
  add_number(command, "busy", line->busy, "other processes that each keep a core busy during the train bench",
             0, 256);
  command.add_option("--config", line->config,
                     "JSON file with the settings of their runs, and of update's learner [the reference's]");
  command.add_option("--algo", line->algo, "the update bench's learner [that of --config]");
  command
      .add_option("--device", line->device,
                  "where the game and update benches run: cpu, cuda, or pieces (the device code on the CPU)")
      ->check(CLI::IsMember({"cpu", "cuda", "pieces"}))
      ->capture_default_str();
  command
      .add_option("--boards", line->boards,
                  "numbers of boards in the game bench on a device [65536 1048576, or 4096 with pieces]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  command
      .add_option("--products", line->products,
                  "precision of the products in the benches update and search: float32, tf32, bf16 [that of "
                  "--config]")
      ->check(CLI::IsMember({"float32", "tf32", "bf16"}));
  command.add_flag("--json", line->json, "one JSON object on stdout");
  // The job of a bench's own child process; see bench/jobs.hpp.
  command.add_option("--job", line->job)->group("");
  command.add_option("--job_parent", line->job_parent)->group("");
  command.add_option("--job_settings", line->job_settings)->group("");
  command.add_option("--job_result", line->job_result)->group("");
  return [line, arguments]() -> int {
    if (!line->job.empty())
      return bench::do_job(job_named(line->job), line->ranks, line->job_parent, line->job_settings,
                           line->job_result, arguments);
    Rows rows;
    for (const Bench& bench : kBenches) {
      if (!line->what.empty() && line->what != bench.name) continue;
      const Rows more = bench.run(*line);
      rows.insert(rows.end(), more.begin(), more.end());
    }
    print(rows, line->json);
    return base::kExitDone;
  };
}

}  // namespace snake_ddp::app
