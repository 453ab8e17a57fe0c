// Opponents from files, in training and in `eval`.
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "../files/temporary_folder.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/files/state_dict.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/learners/registry.hpp"
#include "snake_ddp/rollout/player.hpp"
#include "snake_ddp/train/file_teams.hpp"
#include "snake_ddp/train/options.hpp"
#include "test_data.hpp"

namespace {

using namespace snake_ddp;

const std::string kChampion = test_data("../../models/champion_view.pth");

train::TrainOptions options_against(const std::string& mix) {
  train::TrainOptions o;
  o.algo = "dqn";
  o.obs = "view";
  o.mask_fatal = true;
  o.opponent_mix = mix;
  o.hidden_size = 16;
  o.num_envs = 5;
  o.buffer_size = 2000;
  return o;
}

}  // namespace

TEST_CASE("a team from a file makes the moves in training that it makes in eval", "[property]") {
  const train::Plan plan(options_against("file:" + kChampion + ",level2"));
  const train::FileTeams files(plan);
  const train::League league(train::league_options(plan));
  const auto learner = learners::make_learner(train::learner_options(plan, 1, at::kCPU));
  rollout::CollectorOptions o = train::collector_options(plan, 0, league, files, 0);

  const auto policy =
      nets::make_policy(files::load_weights(kChampion).weights, nets::Head::kIdentity, kChampion);
  const auto mover = rollout::mover(rollout::Player{std::nullopt, policy.get(), plan.sight, false, true})(99);
  game::State before;
  int seen = 0, others = 0;
  bool same = true;
  o.watch = [&](const rollout::Episode& e, const game::State& state, const game::Actions* actions,
                const game::StepResult*) {
    if (actions != nullptr && e.opponent.is_frozen()) {
      const std::uint8_t team = 1;
      game::Actions expected{};
      mover->act({&before, 1}, {&team, 1}, 0, {&expected, 1}, {});
      same = same && std::equal(expected.of + 3, expected.of + 6, actions->of + 3);
      ++seen;
    }
    others += actions != nullptr && e.opponent.scripted.has_value();
    before = state;
  };
  replay::Buffer buffer(rollout::with_boards(learner->columns(), plan.sight), 2000);
  rollout::Collector collector(o, buffer);
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < 1600; ++i) collector.step(learner->policy(), episodes);
  CHECK(same);
  CHECK(seen > 300);
  CHECK(others > 0);
}

TEST_CASE("files have numbers of their own beside the league, and a hash that follows their weights",
          "[unit]") {
  const files::TemporaryFolder folder;
  files::NamedTensors weights = files::load_weights(kChampion).weights;
  const std::string first = folder / "first.pth", second = folder / "second.pth";
  files::save_state_dict(first, weights);
  weights[0].second = weights[0].second.clone();
  weights[0].second.flatten()[0] += 1;
  files::save_state_dict(second, weights);
  const train::Plan plan(options_against("file:" + first + ",league,file:" + second + ":2"));
  const train::FileTeams files(plan);
  CHECK(files.frozen(0) == nullptr);
  REQUIRE(files.frozen(agents::Rival::kFirstFile) != nullptr);
  CHECK(files.frozen(agents::Rival::kFirstFile + 1) != files.frozen(agents::Rival::kFirstFile));
  CHECK(files.frozen(agents::Rival::kFirstFile + 2) == nullptr);
  const nets::NamedTensors state = files.state();
  REQUIRE(state.size() == 2);
  CHECK(state[0].second.item<std::int64_t>() != state[1].second.item<std::int64_t>());
  files.check(state);
  files.check({});                                    // a checkpoint of a run without files
  files.check({{"elsewhere.pth", state[0].second}});  // or with others

  std::filesystem::copy_file(second, first, std::filesystem::copy_options::overwrite_existing);
  const train::FileTeams changed(plan);
  CHECK(changed.text() != files.text());
  CHECK_THROWS_AS(changed.check(state), base::FileError);
  CHECK_THROWS_WITH(changed.check(state), Catch::Contains(first) && Catch::Contains("put the file back"));
}

TEST_CASE("a file whose team would play otherwise in training is refused", "[unit]") {
  const auto refused = [](train::TrainOptions o) {
    try {
      train::FileTeams{train::Plan(o)};
    } catch (const base::UsageError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  train::TrainOptions o = options_against("file:" + kChampion);
  CHECK(refused(o).empty());
  o.mask_fatal = false;
  CHECK_THAT(refused(o), Catch::Contains("set --mask_fatal"));
  o = options_against("file:" + kChampion);
  o.obs = "window";
  CHECK_THAT(refused(o), Catch::Contains("--obs window"));
  o = options_against("file:" + test_data("upstream_actor_2000.pth"));
  CHECK_THAT(refused(o), Catch::Contains("without a record"));
  o = options_against("file:nobody.pth");
  CHECK_THROWS_AS(refused(o), base::FileError);
  o = options_against("file:" + kChampion);
  o.boards = "device";
  CHECK_THROWS_AS(train::check_together(o), base::UsageError);
}
