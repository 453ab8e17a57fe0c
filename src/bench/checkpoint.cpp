#include "snake_ddp/bench/benches.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/bench/jobs.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/learners/registry.hpp"
#include "snake_ddp/train/averaging.hpp"
#include "snake_ddp/train/checkpoints.hpp"

namespace snake_ddp::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kPauseAllowed_ms = 50;
constexpr std::int64_t kTransitions = 100'000, kStoredBoards = 256;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace

std::vector<Row> measure_checkpoint(double seconds) {
  const TemporaryFolder run;
  dist::Options alone;
  alone.device = "cpu";
  dist::DistContext context(dist::World{}, alone);
  const auto learner = learners::make_learner(learners::LearnerOptions());
  replay::Buffer replay(learner->columns(), kTransitions);
  rollout::CollectorOptions options;
  options.num_envs = kStoredBoards;
  options.n_step = 3;
  options.opponent = [](std::int64_t) { return agents::Rival{agents::Opponent::kLevel2}; };
  rollout::Collector collector(options, replay);
  train::Counters counters;
  train::Checkpoints checkpoints({run.path(), 0, 1, true, true, 1, "bench", {}, {}});
  std::vector<rollout::Episode> ended;
  const auto longest_step = [&](const auto& go_on) {
    double longest = 0;
    do {
      const auto begin = Clock::now();
      ended.clear();
      collector.step(learner->policy(), ended);
      ++counters.steps;
      longest = std::max(longest, ms_since(begin));
    } while (go_on());
    return longest;
  };
  longest_step([&] { return replay.size() < kTransitions; });

  train::League league({});
  const std::unique_ptr<train::Averaging> averaging = train::average_every_update({});
  const train::FileTeams files;
  nets::NamedTensors rest;
  std::vector<double> pauses;
  double step_alone = 0, step_beside = 0, bytes = 0, writing_s = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    const auto begin = Clock::now();
    checkpoints.begin({*learner, collector, replay, counters, league, *averaging, files, rest});
    pauses.push_back(ms_since(begin));
    step_beside = std::max(step_beside, longest_step([&] { return checkpoints.busy(); }));
    const train::Checkpoints::Outcome outcome = checkpoints.complete(context);
    if (!outcome.failure.empty()) throw base::FileError(outcome.failure);
    const double took_s = ms_since(begin) / 1000;
    writing_s += took_s;
    bytes += static_cast<double>(outcome.bytes);
    const auto until = Clock::now() + std::chrono::duration<double>(took_s);
    step_alone = std::max(step_alone, longest_step([&] { return Clock::now() < until; }));
  } while (Clock::now() < end);

  // The same bytes to the same disk, and nothing else.
  const std::string plain(static_cast<std::size_t>(replay.payload_bytes()), 'x');
  const auto begin = Clock::now();
  records::write_sealed(run.path() + "/plain", plain);
  const double plain_mb_per_s = static_cast<double>(plain.size()) / 1e3 / ms_since(begin);
  const double mb_per_s = bytes / 1e6 / writing_s;
  std::sort(pauses.begin(), pauses.end());
  const double usual = pauses[pauses.size() / 2], worst = pauses.back();
  return {{"checkpoint pause, median", usual, "ms", kPauseAllowed_ms, usual / kPauseAllowed_ms},
          {"checkpoint pause, worst", worst, "ms", kPauseAllowed_ms, worst / kPauseAllowed_ms},
          {"longest step while it is written", step_beside, "ms", step_alone, step_alone / step_beside},
          {"checkpoint written", mb_per_s, "MB/s", plain_mb_per_s, mb_per_s / plain_mb_per_s}};
}

}  // namespace snake_ddp::bench
