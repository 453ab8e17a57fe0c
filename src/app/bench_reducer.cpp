#include "snake_ddp/app/bench_reducer.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "snake_ddp/app/bench_jobs.hpp"
#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/dist/reducer.hpp"
#include "snake_ddp/nets/leaves.hpp"
#include "snake_ddp/train/run.hpp"

namespace snake_ddp::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMegabytes = 50, kWidth = 512, kRows = 512,
                       kLayers = kMegabytes * 1'000'000 / (kWidth * kWidth * 4);

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
  group.fingerprint = train::version_text();
  group.shared_memory = false;  // as between machines
  dist::DistContext context(world, group);

  std::vector<nets::NamedBlock> blocks;
  for (std::int64_t layer = 0; layer < kLayers; ++layer)
    blocks.push_back({fmt::format("{}", layer), {kWidth, kWidth}, kWidth, 0});
  nets::FlatParameters parameters(nets::blocks_of(blocks), at::kCPU), gradients = parameters.like();
  nets::init_blocks(blocks, parameters, 1);
  const nets::Weights leaves = nets::leaves_over(blocks, parameters, gradients);
  const at::Tensor input = at::rand({kRows, kWidth});
  dist::Reducer reducer(leaves, gradients.flat(), context,
                        static_cast<std::int64_t>(settings.at("bucket_mb").get<double>() * 1048576));
  const auto learn = [&] {
    at::Tensor hidden = input;
    for (const at::Tensor& weight : leaves) hidden = at::linear(hidden, weight).tanh();
    hidden.square().mean().backward();
  };

  nlohmann::json result;
  const auto begin = Clock::now();
  bool first = true;
  for (std::string go_on = "yes"; !go_on.empty();) {
    const auto timed = [&](const char* name, const auto& call) {
      context.barrier("a measurement", context.deadline());
      const double ms = milliseconds_of(call);
      if (!first) result[name].push_back(ms);
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

std::vector<BenchRow> bench_reducer(double seconds, int rounds, int ranks, double bucket_mb) {
  std::vector<double> steps, averages, both, hidden;
  double buckets = 0;
  for (int round = 0; round < rounds; ++round) {
    const nlohmann::json result =
        run_jobs({{"reducer", {{"seconds", seconds / rounds}, {"bucket_mb", bucket_mb}}, ranks}}).front();
    const auto middle = [&](const char* name) { return median(result.at(name).get<std::vector<double>>()); };
    steps.push_back(middle("step"));
    averages.push_back(middle("average"));
    both.push_back(middle("both"));
    hidden.push_back(100 * (steps.back() + averages.back() - both.back()) / averages.back());
    buckets = result.at("buckets");
  }
  const double step = median(steps), average = median(averages), together = median(both),
               longer = std::max(step, average), share = median(hidden);
  return {{fmt::format("reducer_{}MB_step", kMegabytes), step, "ms", step, 1},
          {fmt::format("reducer_{}MB_average", kMegabytes), average, "ms", average, 1},
          {fmt::format("reducer_{}MB_both_in_{:.0f}_buckets", kMegabytes, buckets), together, "ms", longer,
           together / longer},
          {fmt::format("reducer_{}MB_hidden", kMegabytes), share, "%", 100, share / 100}};
}

}  // namespace snake_ddp::app
