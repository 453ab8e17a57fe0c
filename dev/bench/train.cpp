#include "benches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "jobs.hpp"
#include "learners/learner.hpp"
#include "session.hpp"
#include "snake_ddp/core/error.hpp"
#include "train/loop.hpp"
#include "train/plan.hpp"

namespace snake_ddp::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kWarmUpdates = 20;
constexpr double kLeastSeconds = 3.0;  // replay must hold a batch first
constexpr const char* kParts[] = {"play", "draw", "learn"};

// What a run did between its first updates and its end.
struct Pace {
  double seconds = 0;
  double steps = 0, updates = 0;
};

train::TrainOptions endless(const nlohmann::json& settings, const std::string& folder) {
  train::TrainOptions options = options_from(settings);
  options.runs_dir = folder;
  options.max_episodes = 1'000'000'000;
  options.threads = 1;
  return options;
}

Pace paced_run(const nlohmann::json& settings, double seconds, const std::string& folder,
               const dist::World& world) {
  train::TrainOptions options = endless(settings, folder);
  options.max_minutes = std::max(seconds, kLeastSeconds) / 60;
  Clock::time_point begin, end;
  train::Progress first, last;
  train::run_training(options, world, [&](const train::Progress& progress) {
    if (progress.updates < kWarmUpdates) return;
    end = Clock::now();
    last = progress;
    if (first.updates == 0) begin = end, first = progress;
  });
  if (last.updates <= first.updates)
    throw core::Error(core::kExitBug,
                      fmt::format("a run made {} updates in {:.1f} s, too few to measure: raise --seconds",
                                  last.updates, options.max_minutes * 60));
  return {std::chrono::duration<double>(end - begin).count(), static_cast<double>(last.steps - first.steps),
          static_cast<double>(last.updates - first.updates)};
}

// Steps of the boards, and the updates that they bring.
struct Turn {
  std::int64_t steps, updates;
};

Turn turn_of(const train::Plan& o) {
  if (train::learns_from_rollouts(o))
    return {o.rollout_steps, o.rollout_epochs * train::batches_per_epoch(o)};
  constexpr std::int64_t kSteps = 64;
  const double updates = o.updates_per_step * static_cast<double>(o.num_envs * kSteps);
  return updates >= 1 ? Turn{kSteps, std::llround(updates)} : Turn{std::llround(kSteps / updates), 1};
}

// What a run's parts take on this rank, in microseconds per update.
struct Parts {
  double play = 0;   // moves of both teams, observations and transitions included
  double draw = 0;   // batches; of rollouts also the returns
  double learn = 0;  // updates
};

// Trains for `seconds` without logs and reports, and then measures each part by itself for as long in total, on these games and
// weights. The run's folder is made, but nothing is saved.
Parts time_parts(const train::TrainOptions& options, const dist::World& world, double seconds) {
  train::Session s(options, world, {}, std::chrono::minutes(1));
  train::Pipeline& pipeline = *s.pipeline;
  const Turn turn = turn_of(s.o);
  std::vector<rollout::Episode> ended;
  const auto play = [&] {
    ended.clear();
    pipeline.step(ended);
  };
  const auto draw = [&] {
    pipeline.draw();
    ++s.counters.updates;
  };
  const auto learn = [&] { pipeline.learn(s.averaging->reduce()); };
  const auto repeat = [&](std::int64_t times, const auto& what) {
    const Clock::time_point begin = Clock::now();
    for (std::int64_t i = 0; i < times; ++i) what();
    s.watchdog.tick("measuring");
    return train::seconds_since(begin) * 1e6 / static_cast<double>(turn.updates);
  };

  while (!train::learns_from_rollouts(s.o) && pipeline.count().replay_size < s.o.batch_size) play();
  while (train::seconds_since(s.begin) < seconds) {
    repeat(turn.steps, play);
    repeat(turn.updates, [&] { draw(), learn(); });
  }
  Parts sum;
  double turns = 0;
  for (const Clock::time_point begin = Clock::now(); turns == 0 || train::seconds_since(begin) < seconds;
       ++turns) {
    sum.play += repeat(turn.steps, play);
    sum.draw += repeat(turn.updates, draw);
    sum.learn += repeat(turn.updates, learn);
  }
  return {sum.play / turns, sum.draw / turns, sum.learn / turns};
}

struct Rates {
  double steps_per_s = 0, updates_per_s = 0;  // of all ranks together
};

// Jobs that run at once, on a core for each of their ranks.
Rates measure(const nlohmann::json& run, double seconds, int groups, int ranks) {
  const TemporaryFolder folder;
  const std::vector<int> cores = first_cores(groups * ranks);
  std::vector<Job> jobs;
  for (int g = 0; g < groups; ++g) {
    const std::string own = fmt::format("{}/{}", folder.path(), g);
    jobs.push_back({"run",
                    {{"run", run}, {"seconds", seconds}, {"folder", own}},
                    ranks,
                    {cores.begin() + g * ranks, cores.begin() + (g + 1) * ranks}});
  }
  Rates sum;
  for (const nlohmann::json& result : run_jobs(jobs)) {
    sum.steps_per_s += result.at("steps").get<double>() / result.at("seconds").get<double>() * ranks;
    sum.updates_per_s += result.at("updates").get<double>() / result.at("seconds").get<double>() * ranks;
  }
  return sum;
}

}  // namespace

nlohmann::json everything_job(const nlohmann::json& settings, const dist::World& world) {
  const auto seconds = settings.at("seconds").get<double>();
  const TemporaryFolder folder;
  nlohmann::json result = nlohmann::json::array();
  for (int round = 0; round < settings.at("rounds").get<int>(); ++round) {
    const Pace pace = paced_run(settings.at("run"), seconds, folder.path(), world);
    const Parts parts = time_parts(endless(settings.at("run"), folder.path()), world, seconds);
    result.push_back({{"us", pace.seconds * 1e6 / pace.updates},
                      {"play", parts.play},
                      {"draw", parts.draw},
                      {"learn", parts.learn}});
  }
  return result;
}

nlohmann::json run_job(const nlohmann::json& settings, const dist::World& world) {
  const Pace pace = paced_run(settings.at("run"), settings.at("seconds"), settings.at("folder"), world);
  return {{"seconds", pace.seconds}, {"steps", pace.steps}, {"updates", pace.updates}};
}

std::vector<Row> measure_train(double seconds, int rounds, int ranks, int busy,
                               const std::string& config_file) {
  const nlohmann::json run = run_settings(config_file);
  const double span = seconds / rounds;
  const std::vector<int> cores = first_cores(ranks);  // before anything is measured
  const BusyNeighbours neighbours(busy);
  const nlohmann::json everything =
      run_jobs({{"everything", {{"run", run}, {"seconds", span}, {"rounds", rounds}}, 1, {cores.front()}}})
          .front();
  std::vector<double> us, alone, ratios;
  for (const nlohmann::json& round : everything) {
    us.push_back(round.at("us"));
    alone.push_back(0);
    for (const char* part : kParts) alone.back() += round.at(part).get<double>();
    ratios.push_back(us.back() / alone.back());
  }
  std::vector<Row> rows = {{"train_one_rank", median(us), "us/update", median(alone), median(ratios)}};
  for (const char* part : kParts) {
    std::vector<double> values, shares;
    for (std::size_t k = 0; k < alone.size(); ++k) {
      values.push_back(everything[k].at(part));
      shares.push_back(values.back() / alone[k]);
    }
    rows.push_back(
        {fmt::format("train_{}", part), median(values), "us/update", median(alone), median(shares)});
  }

  // In turn, so that what else happens on the machine meets all of them.
  struct Way {
    std::string name;
    int groups, ranks;
    std::vector<double> steps = {}, updates = {}, steps_ratio = {}, updates_ratio = {};
  };
  std::vector<Way> ways = {{"train_{}_1_rank", 1, 1}};
  if (ranks > 1) {
    ways.push_back({fmt::format("train_{{}}_{}_ranks", ranks), 1, ranks});
    ways.push_back({fmt::format("train_{{}}_{}_runs_apart", ranks), ranks, 1});
  }
  for (int round = 0; round < rounds; ++round) {
    for (Way& way : ways) {
      const Rates rates = measure(run, span, way.groups, way.ranks);
      way.steps.push_back(rates.steps_per_s);
      way.updates.push_back(rates.updates_per_s);
      way.steps_ratio.push_back(rates.steps_per_s / ways.front().steps.back());
      way.updates_ratio.push_back(rates.updates_per_s / ways.front().updates.back());
    }
  }
  const Way& one = ways.front();
  for (const Way& way : ways) {
    rows.push_back({fmt::format(fmt::runtime(way.name), "steps"), median(way.steps), "steps/s",
                    median(one.steps), median(way.steps_ratio)});
    rows.push_back({fmt::format(fmt::runtime(way.name), "updates"), median(way.updates), "updates/s",
                    median(one.updates), median(way.updates_ratio)});
  }
  return rows;
}

}  // namespace snake_ddp::bench
