// Whole runs in this process, seen from inside: what the loop passes to its learner and when, and what a second start
// continues.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "../io/temporary_folder.hpp"
#include "io/state_dict.hpp"
#include "rollout/player.hpp"
#include "snake_ddp/core/error.hpp"
#include "spied_learner.hpp"
#include "train/loop.hpp"
#include "train/plan.hpp"

namespace snake_ddp {

std::unique_ptr<learners::Learner> wrapped_make_learner(const learners::LearnerOptions& options) {
  return decorated(options);
}

}  // namespace snake_ddp

namespace {

using namespace snake_ddp;
using train::TrainOptions;
namespace fs = std::filesystem;

TrainOptions tiny(const io::TemporaryFolder& folder) {
  TrainOptions o;
  o.hidden_size = 8;
  o.batch_size = 16;
  o.num_envs = 2;
  o.max_episodes = 6;
  o.episode_length = 20;
  o.buffer_size = 300;
  o.threads = 1;
  o.device = "cpu";
  o.checkpoint_interval = 0;
  o.opponent_difficulty_strategy = "fixed:0";
  o.runs_dir = folder.path();
  return o;
}

SpiedLearner::Notes spied_run(const TrainOptions& o, const train::Watch& watch = {}) {
  SpiedLearner::Notes notes;
  g_decorate = [&](std::unique_ptr<learners::Learner> made) {
    return std::make_unique<SpiedLearner>(std::move(made), notes);
  };
  const core::ExitCode code = train::run_training(o, dist::World{}, watch);
  g_decorate = {};
  REQUIRE(code == core::kExitDone);
  return notes;
}

void plain_run(const TrainOptions& o) { REQUIRE(train::run_training(o, dist::World{}) == core::kExitDone); }

fs::path only_run(const io::TemporaryFolder& folder) {
  std::vector<fs::path> runs;
  for (const auto& entry : fs::directory_iterator(folder.path() / "snakes_3v3")) runs.push_back(entry.path());
  REQUIRE(runs.size() == 1);
  return runs[0];
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The first groups of all matches.
std::vector<std::string> found(const std::string& text, const std::string& pattern) {
  std::vector<std::string> all;
  const std::regex regex(pattern);
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
    all.push_back((*at)[1]);
  return all;
}

std::vector<std::string> rows_of(const at::Tensor& column) {
  const at::Tensor rows = column.contiguous();
  const auto width = static_cast<std::size_t>(rows.nbytes()) / static_cast<std::size_t>(rows.size(0));
  std::vector<std::string> out;
  for (std::int64_t r = 0; r < rows.size(0); ++r)
    out.emplace_back(static_cast<const char*>(rows.data_ptr()) + static_cast<std::size_t>(r) * width, width);
  return out;
}

}  // namespace

TEST_CASE("a run's learning rates follow the steps that were played", "[unit]") {
  const int boards = GENERATE(1, 2);
  io::TemporaryFolder folder;
  TrainOptions o = tiny(folder);
  o.num_envs = boards;
  o.lr_end = 0.25;
  SpiedLearner::Notes notes;
  g_decorate = [&](std::unique_ptr<learners::Learner> inner) {
    return std::make_unique<SpiedLearner>(std::move(inner), notes);
  };
  std::int64_t moves = 0;
  train::run_training(o, dist::World{}, [&](const train::Progress& progress) {
    ++moves;
    REQUIRE(progress.steps == moves * boards);
    REQUIRE(notes.rates.size() == static_cast<std::size_t>(moves));
    REQUIRE(notes.rates.back() == train::rate_factor(train::Plan(o), moves, 0));
  });
  g_decorate = {};
  CHECK(notes.rates.back() == Approx(0.25));
}

TEST_CASE("updates begin when replay holds a batch, and come as often as asked", "[unit]") {
  io::TemporaryFolder folder;
  TrainOptions o = tiny(folder);
  o.n_step = 3;
  o.updates_per_step = 0.75;  // one and a half for each move of two boards
  std::int64_t moves = 0, last = -1;
  const SpiedLearner::Notes notes = spied_run(o, [&](const train::Progress& progress) {
    ++moves;
    // Of n boards' moves the last two wait for their rewards: 16 transitions are there after 8 + 2 moves.
    const std::int64_t learning = std::max<std::int64_t>(0, moves - 9);
    REQUIRE(progress.updates == learning * 3 / 2);
    last = progress.updates;
  });
  CHECK(moves >= 60);
  CHECK(static_cast<std::int64_t>(notes.batches.size()) == last);
}

TEST_CASE("each update draws rows of its own, from all that replay holds", "[unit]") {
  const std::string algo = GENERATE("ddpg", "rqmix");
  io::TemporaryFolder folder;
  TrainOptions o = tiny(folder);
  o.algo = algo;
  o.sequence_length = 5;
  o.burn_in = 2;
  const SpiedLearner::Notes notes = spied_run(o);
  REQUIRE(notes.batches.size() > 60);
  std::set<std::string> drawn;
  for (std::size_t u = 0; u < notes.batches.size(); ++u) {
    const at::Tensor& seen = notes.batches[u].columns[0];
    REQUIRE(seen.size(0) == (algo == "rqmix" ? 15 : 16));  // whole windows only
    if (u > 0) REQUIRE_FALSE(at::equal(seen, notes.batches[u - 1].columns[0]));
    for (const std::string& row : rows_of(seen)) drawn.insert(row);
  }
  CHECK(drawn.size() > 90);  // of 120 transitions
}

TEST_CASE("a rollout is learned from in each epoch, in another order, in batches of one size", "[unit]") {
  const std::size_t batch = GENERATE(6U, 7U);
  io::TemporaryFolder folder;
  TrainOptions o = tiny(folder);
  o.algo = "pqn";
  o.rollout_steps = 15;
  o.rollout_epochs = 3;
  o.batch_size = static_cast<std::int64_t>(batch);
  const SpiedLearner::Notes notes = spied_run(o);
  const std::size_t batches = 30 / batch;            // of 15 steps of 2 boards
  REQUIRE(notes.batches.size() == 4 * 3 * batches);  // 60 moves
  std::set<std::vector<std::string>> orders;
  std::set<std::string> earlier;
  for (std::size_t r = 0; r < 4; ++r) {
    std::set<std::string> of_rollout;
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::string> learned;
      for (std::size_t b = 0; b < batches; ++b) {
        const auto rows = rows_of(notes.batches[(r * 3 + epoch) * batches + b].columns[0]);
        CHECK(rows.size() == batch);
        learned.insert(learned.end(), rows.begin(), rows.end());
      }
      CHECK(orders.insert(learned).second);
      const std::set<std::string> rows(learned.begin(), learned.end());
      CHECK(rows.size() == batches * batch);
      of_rollout.insert(rows.begin(), rows.end());
    }
    // Where batches do not divide it, each epoch leaves out other rows.
    CHECK((of_rollout.size() == 30 || (batch == 7 && of_rollout.size() >= 28)));
    for (const std::string& row : of_rollout) CHECK(earlier.insert(row).second);
  }
}

TEST_CASE("a run ends after --total_steps, however many games that is, and then has nothing to do",
          "[unit]") {
  io::TemporaryFolder folder;
  TrainOptions o = tiny(folder);
  o.total_steps = 1000;
  o.max_episodes = 1;
  o.checkpoint_interval = 1000;
  std::int64_t steps = 0;
  const auto run = [&] {
    return train::run_training(o, dist::World{}, [&](const train::Progress& p) { steps = p.steps; });
  };
  REQUIRE(run() == core::kExitDone);
  CHECK((steps >= 1000 && steps < 1100));
  o.resume = only_run(folder);
  steps = 0;
  REQUIRE(run() == core::kExitDone);
  CHECK(steps == 0);
  o.total_steps = 2000;
  REQUIRE(run() == core::kExitDone);
  CHECK((steps >= 2000 && steps < 2100));
}

TEST_CASE("an evaluation can be reproduced as a match with the saved weights", "[unit]") {
  const auto [mask, search] = GENERATE(table<bool, std::string>({{false, ""}, {true, ""}, {false, "look2"}}));
  io::TemporaryFolder folder;
  TrainOptions o = tiny(folder);
  o.obs = "26";
  o.mask_fatal = mask;
  o.eval_interval = 1000;  // at the end only
  o.eval_games = 70;
  o.eval_opponent = "level1";
  o.seed = 12;
  if (!search.empty()) o.algo = "dqn", o.reward = "score", o.eval_search = search;
  plain_run(o);
  const fs::path run = only_run(folder);
  learners::LearnerOptions same;
  same.algo = o.algo;
  same.features = 26;
  same.hidden_size = 8;
  const auto learner = learners::make_learner(same);
  nets::copy_state(io::load_state_dict(run / "trained_model/actor_6.pth"), learner->exported_actor(),
                   "actor_6");
  learner->start_from_exported();
  const train::Plan plan(o);
  const rollout::Player self =
      rollout::with_search({std::nullopt, &learner->policy(), plan.obs_spec, false, mask}, plan.eval_how,
                           plan.training, learner->exported_actor());
  const rollout::Player rival{game::Opponent::kLevel1, nullptr, {}, false};
  play::MatchOptions match;
  match.games = 70;
  match.seed = 12;
  const play::MatchResult r = rollout::play_match(self, rival, match);
  const std::string log = text_of(run / "train.log");
  CHECK(found(log, R"(Evaluation at episode (\d+)\])") == std::vector<std::string>{"6"});
  CHECK_THAT(log, Catch::Contains(fmt::format("against level1: won {:.1f} %", 100 * r.win_rate())));
  CHECK_THAT(log, Catch::Contains(fmt::format("of 70 games, score {:.1f} : {:.1f},",
                                              static_cast<double>(r.score_a) / 70,
                                              static_cast<double>(r.score_b) / 70)));
}

TEST_CASE("a second start does what is due after the first one's intervals, not again", "[unit]") {
  io::TemporaryFolder folder;
  TrainOptions o = tiny(folder);
  o.num_envs = 1;
  o.max_episodes = 4;
  o.model_episode = 100;
  o.save_interval = 2;
  o.record_interval = 3;
  o.eval_interval = 3;
  o.eval_games = 2;
  o.opponent_mix = "league";
  o.jobs_own["league_interval"] = std::int64_t{3};
  o.league_games = 4;
  o.checkpoint_interval = 1000;
  o.algo = "dqn";
  plain_run(o);
  const fs::path run = only_run(folder);
  const std::string saved = text_of(run / "trained_model/actor_104.pth");
  const std::string first = text_of(run / "train.log");
  CHECK(found(first, R"(Evaluation at episode (\d+)\])") == std::vector<std::string>{"3", "4"});
  CHECK(found(first, R"(League at episode (\d+)\])") == std::vector<std::string>{"3"});

  o.resume = run;
  o.max_episodes = 7;
  std::int64_t before = -1;
  REQUIRE(train::run_training(o, dist::World{}, [&](const train::Progress& p) {
            if (before < 0) before = p.steps - 1;
          }) == core::kExitDone);
  CHECK(before == 80);
  const std::string second = text_of(run / "train.log").substr(first.size());
  CHECK(found(second, R"(Evaluation at episode (\d+)\])") == std::vector<std::string>{"6", "7"});
  CHECK(found(second, R"(League at episode (\d+)\])") == std::vector<std::string>{"6"});
  CHECK((text_of(run / "trained_model/actor_104.pth") == saved));
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(run / "trained_model"))
    names.insert(entry.path().filename());
  for (const char* name : {"actor_102.pth", "actor_106.pth", "actor_107.pth", "critic_107.pth"})
    CHECK(names.contains(name));
  CHECK_FALSE(names.contains("actor_105.pth"));
  std::set<std::string> games;
  for (const auto& entry : fs::directory_iterator(run / "games")) games.insert(entry.path().filename());
  CHECK(games == std::set<std::string>{"episode_103.json", "episode_106.json"});
}

TEST_CASE("with other boards a second start continues the first one's count of episodes and decay of epsilon",
          "[unit]") {
  io::TemporaryFolder folder;
  TrainOptions o = tiny(folder);
  o.num_envs = 1;
  o.max_episodes = 4;
  o.epsilon_speed = 0.99;
  o.opponent_difficulty_strategy = "linear";
  o.log_every_episode = true;
  o.checkpoint_interval = 1000;
  plain_run(o);
  const fs::path run = only_run(folder);
  const std::string first = text_of(run / "train.log");
  const std::string pattern = R"(\[Episode (\d+)\])", shown = R"(epsilon: ([\d.]+))";
  REQUIRE(found(first, pattern).back() == "00004");
  CHECK(std::stod(found(first, shown).back()) == Approx(0.5 * std::pow(0.99, 79)).margin(0.0051));

  o.resume = run;
  o.num_envs = 2;
  o.max_episodes = 6;
  plain_run(o);
  const std::string second = text_of(run / "train.log").substr(first.size());
  CHECK_THAT(second, Catch::Contains("1 rank starts new games"));
  CHECK(found(second, pattern) == std::vector<std::string>{"00005", "00006"});
  // Five games were begun: these are the sixth and the seventh, of six the hardest.
  CHECK(found(second, R"(difficulty: (\d))") == std::vector<std::string>{"4", "4"});
  CHECK(std::stod(found(second, shown).back()) == Approx(0.5 * std::pow(0.99, 119)).margin(0.0051));
}

TEST_CASE("time of earlier starts counts when a run resumes", "[unit]") {
  io::TemporaryFolder folder;
  TrainOptions o = tiny(folder);
  o.max_episodes = 1'000'000;
  o.checkpoint_interval = 1'000'000;
  o.max_minutes = 0.01;
  const auto begin = std::chrono::steady_clock::now();
  plain_run(o);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(600));
  o.resume = only_run(folder);
  std::int64_t moves = 0;
  REQUIRE(train::run_training(o, dist::World{}, [&](const train::Progress&) { ++moves; }) == core::kExitDone);
  CHECK(moves <= train::vote_interval(train::Plan(o)));
}

TEST_CASE("an evaluation that just reaches the target ends the run", "[unit]") {
  const auto run = [](double target) {
    io::TemporaryFolder folder;
    TrainOptions o = tiny(folder);
    o.eval_interval = 2;
    o.eval_games = 20;
    o.eval_opponent = "level0";
    o.target_win_rate = target;
    plain_run(o);
    return text_of(only_run(folder) / "train.log");
  };
  const std::string whole = run(1.0);
  CHECK(found(whole, R"(Evaluation at episode (\d+)\])") == std::vector<std::string>{"2", "4", "6"});
  const double first = std::stod(found(whole, R"(won ([\d.]+) %)")[0]) / 100;
  REQUIRE((first > 0 && first < 1));
  CHECK(found(run(first), R"(Evaluation at episode (\d+)\])") == std::vector<std::string>{"2"});
}
