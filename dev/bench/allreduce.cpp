#include "benches.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "dist/build.hpp"
#include "dist/context.hpp"
#include "jobs.hpp"
#include "learners/buffer.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "train/plan.hpp"

namespace snake_ddp::bench {
namespace {

using Clock = std::chrono::steady_clock;

// 1 kB to 10 MB in floats, about three sizes to the decade.
constexpr std::int64_t kFloats[] = {250,    500,     1'250,   2'500,   5'000,     12'500,   25'000,
                                    50'000, 125'000, 250'000, 500'000, 1'250'000, 2'500'000};

// How many floats the learner's calls of `average` hold, in the order of one update.
std::vector<std::int64_t> calls_of_an_update(const train::TrainOptions& o) {
  const auto learner = learners::make_learner(train::learner_options(train::Plan(o), at::kCPU));
  const learners::Batch batch = learners::random_batch(learner->columns(), o.batch_size);
  std::vector<std::int64_t> calls;
  learner->update(batch, [&](at::Tensor& gradient) { calls.push_back(gradient.numel()); });
  return calls;
}

// One call of the library and nothing of ours around it.
class PlainGloo {
 public:
  PlainGloo(const std::string& file, const dist::World& world) {
    auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(60));
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::FileStore>(file, world.size), world.rank, world.size, options);
  }
  void all_reduce(at::Tensor& tensor) {
    std::vector<at::Tensor> tensors{tensor};
    group_->allreduce(tensors)->wait();
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

double microseconds_a_call(std::int64_t calls, const std::function<void()>& call) {
  const auto begin = Clock::now();
  for (std::int64_t i = 0; i < calls; ++i) call();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / static_cast<double>(calls);
}

// Medians over spans of both, taken in turn; the ranks make the same number of calls, which rank 0 chooses.
std::pair<double, double> in_turn(double seconds, dist::DistContext& context,
                                  const std::function<void()>& ours, const std::function<void()>& plain) {
  constexpr int kSpans = 10;
  const auto calls_in_a_span = [&](const std::function<void()>& call) {
    const double us = std::max(microseconds_a_call(5, call), microseconds_a_call(5, call));
    const auto calls = static_cast<std::int64_t>(seconds / 2 / kSpans * 1e6 / us);
    return std::stoll(
        context.broadcast_text(std::to_string(std::max<std::int64_t>(calls, 1)), context.deadline()));
  };
  const std::int64_t our_calls = calls_in_a_span(ours), plain_calls = calls_in_a_span(plain);
  std::vector<double> our_us, plain_us;
  for (int span = 0; span < kSpans; ++span) {
    our_us.push_back(microseconds_a_call(our_calls, ours));
    plain_us.push_back(microseconds_a_call(plain_calls, plain));
  }
  return {median(our_us), median(plain_us)};
}

std::string size_name(std::int64_t bytes) {
  return bytes >= 1'000'000 ? fmt::format("{}MB", bytes / 1'000'000) : fmt::format("{}kB", bytes / 1'000);
}

}  // namespace

nlohmann::json allreduce_job(const nlohmann::json& settings, const dist::World& world) {
  at::set_num_threads(1);
  const train::TrainOptions options = options_from(settings.at("run"));
  const auto seconds = settings.at("seconds").get<double>();
  dist::Options group;
  group.device = "cpu";
  group.backend = "gloo";
  group.timeout = group.join_timeout = std::chrono::seconds(60);
  group.fingerprint = dist::build_text();
  group.shared_memory = settings.at("shared_memory").get<bool>();
  dist::DistContext context(world, group);
  PlainGloo gloo(settings.at("store").get<std::string>(), world);

  const auto measured = [&](const std::vector<std::int64_t>& calls) {
    std::vector<at::Tensor> gradients;
    std::int64_t floats = 0;
    for (const std::int64_t n : calls) {
      gradients.push_back(at::zeros({n}));
      floats += n;
    }
    at::Tensor whole = at::zeros({floats});
    const auto [ours, plain] = in_turn(
        seconds, context,
        [&] {
          for (at::Tensor& gradient : gradients) context.all_reduce_mean(gradient, context.deadline());
        },
        [&] { gloo.all_reduce(whole); });
    return nlohmann::json{{"bytes", floats * 4}, {"calls", calls.size()}, {"us", ours}, {"plain_us", plain}};
  };
  nlohmann::json result;
  result["update"] = measured(calls_of_an_update(options));
  for (const std::int64_t floats : kFloats) result["sizes"].push_back(measured({floats}));
  context.barrier("the end of the bench", context.deadline());
  return result;
}

std::vector<Row> measure_allreduce(double seconds, int rounds, int ranks, const std::string& config_file) {
  const nlohmann::json run = run_settings(config_file);
  std::vector<Row> updates, sizes;
  double calls = 0, steps = 1;
  for (const bool shared_memory : {true, false}) {
    // Each round is a group of its own: how two processes settle on their cores differs from start to start.
    std::vector<nlohmann::json> results;
    for (int round = 0; round < rounds; ++round) {
      const TemporaryFolder folder;
      const nlohmann::json settings = {{"run", run},
                                       {"seconds", seconds / rounds},
                                       {"shared_memory", shared_memory},
                                       {"store", folder.path() + "/store"}};
      results.push_back(run_jobs({{"allreduce", settings, ranks}}).front());
    }
    const std::string way = shared_memory ? "shared_memory" : "gloo";
    const auto row = [&](const std::string& name, const auto& part) {
      std::vector<double> us, plain, ratios;
      for (const nlohmann::json& result : results) {
        const nlohmann::json& found = part(result);
        us.push_back(found.at("us"));
        plain.push_back(found.at("plain_us"));
        ratios.push_back(us.back() / plain.back());
      }
      return Row{name, median(us), "us", median(plain), median(ratios)};
    };
    updates.push_back(
        row("allreduce_gradients_" + way, [](const auto& result) { return result.at("update"); }));
    for (std::size_t k = 0; k < std::size(kFloats); ++k)
      sizes.push_back(row(fmt::format("allreduce_{}_{}", size_name(kFloats[k] * 4), way),
                          [k](const auto& result) { return result.at("sizes").at(k); }));
    calls = results.front().at("update").at("calls");
  }
  updates.push_back({"allreduce_calls_of_an_update", calls, "calls", steps, calls / steps});
  updates.insert(updates.end(), sizes.begin(), sizes.end());
  return updates;
}

}  // namespace snake_ddp::bench
