#include "snake_ddp/bench/benches.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>
#include <thread>

#include "snake_ddp/bench/jobs.hpp"
#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/dist/reducer.hpp"
#include "snake_ddp/nets/leaves.hpp"
#include "snake_ddp/running/build.hpp"

namespace snake_ddp::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMegabytes = 50, kWidth = 512, kRows = 512,
                       kLayers = kMegabytes * 1'000'000 / (kWidth * kWidth * 4);
constexpr auto kLayerElsewhere =
    std::chrono::milliseconds(10);  // about what a layer's backward pass takes here

// Of all threads of this process, the system's work for them included.
double cpu_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

double milliseconds_of(const auto& call) {
  const auto begin = Clock::now();
  call();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace

nlohmann::json reducer_job(const nlohmann::json& settings, const dist::World& world) {
  at::set_num_threads(1);
  dist::Options group;
  group.device = "cpu";
  group.backend = "gloo";
  group.timeout = group.join_timeout = std::chrono::seconds(60);
  group.fingerprint = running::build_text();
  group.shared_memory = false;  // as between machines
  dist::DistContext context(world, group);

  std::vector<nets::NamedBlock> blocks;
  for (std::int64_t layer = 0; layer < kLayers; ++layer)
    blocks.push_back({fmt::format("{}", layer), {kWidth, kWidth}, kWidth, 0});
  nets::FlatParameters parameters(nets::blocks_of(blocks), at::kCPU), gradients = parameters.like();
  nets::init_blocks(blocks, parameters, 1);
  const nets::Weights leaves = nets::leaves_over(parameters, gradients);
  const bool elsewhere = settings.at("elsewhere").get<bool>();
  const at::Tensor input = at::rand({elsewhere ? 1 : kRows, kWidth});
  dist::Reducer reducer(leaves, gradients.flat(), context,
                        static_cast<std::int64_t>(settings.at("bucket_mb").get<double>() * 1048576));
  const auto learn = [&] {
    at::Tensor hidden = input;
    for (const at::Tensor& weight : leaves) {
      hidden = at::linear(hidden, weight).tanh();
      if (elsewhere)
        hidden.register_hook([](const at::Tensor&) { std::this_thread::sleep_for(kLayerElsewhere); });
    }
    hidden.square().mean().backward();
  };

  nlohmann::json result;
  const auto begin = Clock::now();
  bool first = true;
  for (std::string go_on = "yes"; !go_on.empty();) {
    const auto timed = [&](const char* name, const auto& call) {
      context.barrier("a measurement", context.deadline());
      const double cpu = cpu_milliseconds(), ms = milliseconds_of(call);
      if (first) return;
      result[name].push_back(ms);
      result[std::string(name) + "_cpu"].push_back(cpu_milliseconds() - cpu);
    };
    timed("step", learn);
    timed("average", [&] { context.all_reduce_mean(gradients.flat(), context.deadline()); });
    timed("both", [&] {
      reducer.begin();
      learn();
      reducer.finish();
    });
    const bool late =
        std::chrono::duration<double>(Clock::now() - begin).count() > settings.at("seconds").get<double>();
    go_on = context.broadcast_text(late && !first ? "" : "yes", context.deadline());
    first = false;
  }
  result["buckets"] = reducer.buckets();
  return result;
}

std::vector<Row> measure_reducer(double seconds, int rounds, int ranks, double bucket_mb) {
  std::vector<Row> rows;
  for (const bool elsewhere : {false, true}) {
    std::vector<double> steps, averages, cpu, both, hidden;
    double buckets = 0;
    for (int round = 0; round < rounds; ++round) {
      const nlohmann::json settings = {
          {"seconds", seconds / 2 / rounds}, {"bucket_mb", bucket_mb}, {"elsewhere", elsewhere}};
      const nlohmann::json result = run_jobs({{"reducer", settings, ranks}}).front();
      const auto middle = [&](const char* name) {
        return median(result.at(name).get<std::vector<double>>());
      };
      steps.push_back(middle("step"));
      averages.push_back(middle("average"));
      cpu.push_back(middle("average_cpu"));
      both.push_back(middle("both"));
      hidden.push_back(100 * (steps.back() + averages.back() - both.back()) / averages.back());
      buckets = result.at("buckets");
    }
    const double step = median(steps), average = median(averages), together = median(both),
                 longer = std::max(step, average), share = median(hidden);
    const std::string name =
        fmt::format("reducer_{}MB_{}", kMegabytes, elsewhere ? "computed_elsewhere_" : "");
    rows.push_back({name + "step", step, "ms", step, 1});
    rows.push_back({name + "average", average, "ms", median(cpu), average / median(cpu)});
    rows.push_back(
        {fmt::format("{}both_{:.0f}_buckets", name, buckets), together, "ms", longer, together / longer});
    rows.push_back({name + "hidden", share, "%", 100, share / 100});
  }
  return rows;
}

}  // namespace snake_ddp::bench
