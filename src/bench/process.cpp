#include "snake_ddp/bench/benches.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "snake_ddp/base/check.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/bench/jobs.hpp"
#include "snake_ddp/train/loop.hpp"

namespace snake_ddp::bench {
namespace {

// Since the machine started: the same clock in all its processes.
double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  if (!(file >> all >> resident)) throw base::Bug("/proc/self/statm contains no resident size");
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1048576;
}

}  // namespace

nlohmann::json bare_job(const nlohmann::json&, const dist::World&) {
  at::set_num_threads(1);
  const at::Tensor product = at::mm(at::ones({256, 256}), at::ones({256, 256}));
  SD_CHECK(product[0][0].item<float>() == 256.0F, "a product of ones");
  return {{"mib", resident_mib()}};
}

nlohmann::json memory_job(const nlohmann::json& settings, const dist::World& world) {
  train::TrainOptions options = options_from(settings.at("run"));
  options.runs_dir = settings.at("folder");
  // More boards and fewer updates than the schedule has: full soon, and never less memory than the schedule takes.
  options.num_envs = std::max<std::int64_t>(options.num_envs, 64);
  options.updates_per_step = std::min(options.updates_per_step, 0.005);
  options.max_episodes = options.buffer_size / options.episode_length + 2 * options.num_envs;
  options.threads = 1;
  options.eval_interval = 0;
  options.max_minutes = 0;
  double mib = 0, empty_mib = 0;
  train::Progress last;
  train::run_training(options, world, [&](const train::Progress& progress) {
    if (last.steps == 0) empty_mib = resident_mib() - static_cast<double>(progress.replay_bytes) / 1048576;
    last = progress;
    if (progress.steps % (100 * options.num_envs) == 0) mib = std::max(mib, resident_mib());
  });
  if (last.updates == 0) throw base::Bug("replay was filled without an update");
  return {{"mib", std::max(mib, resident_mib())},
          {"empty_mib", empty_mib},
          {"payload_mib", static_cast<double>(last.replay_bytes) / 1048576}};
}

nlohmann::json start_job(const nlohmann::json& settings, const dist::World& world) {
  const double own_code = now_s();
  train::TrainOptions options = options_from(settings.at("run"));
  options.runs_dir = settings.at("folder");
  // Just enough games for a first batch.
  options.max_episodes =
      (options.batch_size + options.n_step) / options.episode_length + 1 + options.num_envs;
  options.eval_interval = 0;
  options.max_minutes = 0;
  double first_update = 0;
  train::run_training(options, world, [&](const train::Progress& progress) {
    if (progress.updates > 0 && first_update == 0) first_update = now_s();
  });
  if (first_update == 0) throw base::Bug("a run without an update");
  return {{"own_code_s", own_code}, {"first_update_s", first_update}};
}

std::vector<Row> measure_memory(int rounds, int ranks, const std::string& config_file) {
  const nlohmann::json run = run_settings(config_file);
  std::vector<double> rank, libtorch, whole, pages, payload;
  for (int round = 0; round < rounds; ++round) {
    const TemporaryFolder folder;
    libtorch.push_back(run_jobs({{"bare", nlohmann::json::object(), 1, {}}}).front().at("mib"));
    const nlohmann::json full =
        run_jobs({{"memory", {{"run", run}, {"folder", folder.path()}}, ranks, {}}}).front();
    whole.push_back(full.at("mib"));
    payload.push_back(full.at("payload_mib"));
    pages.push_back(whole.back() - full.at("empty_mib").get<double>());
    rank.push_back(whole.back() - libtorch.back() - payload.back());
  }
  constexpr double kLimitMib = 300;
  return {{"memory_of_a_rank", median(rank), "MiB", kLimitMib, median(rank) / kLimitMib},
          {"memory_of_libtorch", median(libtorch), "MiB", median(whole), median(libtorch) / median(whole)},
          {"memory_of_replay", median(pages), "MiB", median(payload), median(pages) / median(payload)}};
}

std::vector<Row> measure_start(int rounds, int ranks, const std::string& config_file) {
  const nlohmann::json run = run_settings(config_file);
  std::vector<double> total, loading;
  for (int round = -1; round < rounds; ++round) {  // the first one warms the system's file cache
    const TemporaryFolder folder;
    const nlohmann::json settings = {{"run", run}, {"folder", folder.path()}};
    const double begin = now_s();
    const nlohmann::json found = run_jobs({{"start", settings, ranks, {}}}).front();
    if (round < 0) continue;
    total.push_back(found.at("first_update_s").get<double>() - begin);
    loading.push_back(found.at("own_code_s").get<double>() - begin);
  }
  constexpr double kLimitS = 3;
  return {{"start_to_first_update", median(total), "s", kLimitS, median(total) / kLimitS},
          {"start_of_libtorch", median(loading), "s", median(total), median(loading) / median(total)}};
}

}  // namespace snake_ddp::bench
