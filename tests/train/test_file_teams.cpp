// Opponents from files, in training and in `eval`.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "../io/temporary_folder.hpp"
#include "io/state_dict.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "rollout/player.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/mirror.hpp"
#include "test_data.hpp"
#include "train/file_teams.hpp"
#include "train/options.hpp"

namespace {

using namespace snake_ddp;

const std::string kChampion = test_data("../../models/champion.pth");

train::TrainOptions options_against(const std::string& mix) {
  train::TrainOptions o;
  o.algo = "dqn";
  o.obs = "ahead";
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
  const auto learner = learners::make_learner(train::learner_options(plan, at::kCPU));
  rollout::CollectorOptions o = train::collector_options(plan, 0, league, files, 0);

  const auto policy = nets::make_policy(io::load_weights(kChampion).weights, nets::Head::kIdentity, kChampion,
                                        game::mirror_of(plan.obs_spec.kind));
  const auto mover =
      rollout::mover(rollout::Player{std::nullopt, policy.get(), plan.obs_spec, false, true})(99);
  game::State before;
  int seen = 0;
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
    before = state;
  };
  learners::Buffer buffer(rollout::with_boards(learner->columns(), plan.obs_spec), 2000);
  rollout::Collector collector(o, buffer);
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < 1600; ++i) collector.step(learner->policy(), episodes);
  CHECK(same);
  CHECK(seen == 1600);
}

TEST_CASE("files have numbers of their own beside the league, and a hash that follows their weights",
          "[unit]") {
  const io::TemporaryFolder folder;
  io::NamedTensors weights = io::load_weights(kChampion).weights;
  const std::string first = folder / "first.pth", second = folder / "second.pth";
  io::save_state_dict(first, weights);
  weights[0].second = weights[0].second.clone();
  weights[0].second.flatten()[0] += 1;
  io::save_state_dict(second, weights);
  const train::Plan plan(options_against("file:" + first + ":ahead,league,file:" + second + ":ahead:2"));
  const train::FileTeams files(plan);
  CHECK(files.frozen(0) == nullptr);
  REQUIRE(files.frozen(game::Rival::kFirstFile) != nullptr);
  CHECK(files.frozen(game::Rival::kFirstFile + 1) != files.frozen(game::Rival::kFirstFile));
  CHECK(files.frozen(game::Rival::kFirstFile + 2) == nullptr);
  const nets::NamedTensors state = files.state();
  REQUIRE(state.size() == 2);
  CHECK(state[0].second.item<std::int64_t>() != state[1].second.item<std::int64_t>());
  files.check(state);
  files.check({});                                    // a checkpoint of a run without files
  files.check({{"elsewhere.pth", state[0].second}});  // or with others

  std::filesystem::copy_file(second, first, std::filesystem::copy_options::overwrite_existing);
  const train::FileTeams changed(plan);
  CHECK(changed.text() != files.text());
  CHECK_THROWS_AS(changed.check(state), core::FileError);
  CHECK_THROWS_WITH(changed.check(state), Catch::Contains(first) && Catch::Contains("put the file back"));
}

TEST_CASE("files are members of a league: drawn, judged, never replaced, known again by their paths",
          "[unit]") {
  const io::TemporaryFolder folder;
  const std::string other = folder / "other.pth";
  // It makes the worst moves, so it is easier than a copy of any learner.
  io::NamedTensors worst = io::load_weights(kChampion).weights;
  for (auto& [name, tensor] : worst)
    if (name.find(".2.") != std::string::npos) tensor = -tensor;
  io::save_state_dict(other, worst);
  const std::string mix = "level0:0.1,league:0.7,file:" + kChampion + ":0.1";
  train::TrainOptions options = options_against(mix + ",file:" + other + ":ahead:0.1");
  options.league_games = 100;
  options.league_win_rate = 0;
  const train::Plan plan(options);
  const train::FileTeams files(plan);
  train::LeagueOptions how = train::league_options(plan, &files);
  how.places = 1;
  train::League league(how);
  const auto names = [](const train::League& of) {
    std::vector<std::string> all;
    for (const train::LeagueMember& member : of.members()) all.push_back(train::name_of(member));
    return all;
  };
  CHECK(names(league) == std::vector<std::string>{"level0", "file:" + kChampion, "file:" + other});

  int from_files = 0;
  for (std::uint64_t game = 0; game < 300; ++game) from_files += league.drawn(1, game).is_file();
  CHECK(from_files > 150);

  dist::DistContext alone(dist::World{}, dist::Options{});
  const auto learner = learners::make_learner(train::learner_options(plan, at::kCPU));
  const auto judge = [&](std::int64_t episode) {
    return league
        .judge(
            *learner, episode, alone, [](auto) {}, [] { return false; })
        .value();
  };
  const train::Judgement first = judge(10);
  REQUIRE(first.against.size() == 3);
  CHECK(first.against[1].losses > first.against[1].games / 2);  // an untrained learner
  // There is room for one copy, so the next one takes its place, not the file's that is easier.
  const train::Judgement second = judge(20);
  REQUIRE(second.against.size() == 4);
  CHECK(second.against[2].wins > second.against[3].wins);
  CHECK(names(league) == std::vector<std::string>{"level0", "file:" + kChampion, "file:" + other, "#20"});

  // A mix with one of the files, under another number.
  const train::Plan later(options_against("level0:0.1,league:0.7,file:" + other + ":ahead"));
  const train::FileTeams later_files(later);
  train::League restored(train::league_options(later, &later_files));
  nets::NamedTensors state = league.state();
  for (auto& [name, tensor] : state)
    if (name == "hardness") tensor = at::tensor({0.0, 0.125, 0.25, 0.5}, at::kDouble);
  restored.restore(state, "a state");
  CHECK(names(restored) == std::vector<std::string>{"level0", "file:" + other, "#20"});
  CHECK(restored.members()[1].rival == game::Rival{std::nullopt, game::Rival::kFirstFile});
  CHECK(restored.members()[0].hardness == 0.0);
  CHECK(restored.members()[1].hardness == 0.25);
  CHECK(restored.members()[2].hardness == 0.5);

  nets::NamedTensors nameless;
  for (const auto& [name, tensor] : state)
    if (name != "file." + other) nameless.emplace_back(name, tensor);
  CHECK_THROWS_AS(restored.restore(nameless, "a state"), core::FileError);
}

TEST_CASE("a file whose team would play otherwise in training is refused", "[unit]") {
  const auto refused = [](train::TrainOptions o) {
    try {
      train::FileTeams{train::Plan(o)};
    } catch (const core::UsageError& e) {
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
  const std::string actor = "file:" + test_data("upstream_actor_2000.pth");
  o = options_against(actor);
  CHECK_THAT(refused(o), Catch::Contains("nothing says what this actor's last layer is") &&
                             Catch::Contains("type --opponent_mix " + actor + ":softmax or "));
  o = options_against(actor + ":softmax:0.5");
  CHECK_THAT(refused(o), Catch::Contains("this run has --obs ahead"));
  o.obs = "26";
  CHECK(refused(o).empty());
  o = options_against("file:nobody.pth");
  CHECK_THROWS_AS(refused(o), core::FileError);
}
