#include <array>
#include <map>
#include <set>

#include "boards.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/curriculum.hpp"
#include "snake_ddp/game/mix.hpp"
#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/game/reward.hpp"

using namespace snake_ddp;
using boards::top;
using game::Curriculum;
using game::difficulty_at;
using game::Opponent;
using game::opponent_at;
using game::parse_curriculum;

namespace {

int first_action(Opponent opponent, const game::State& s) {
  game::Actions actions{};
  game::act(opponent, s, 0, actions, 0, 0);
  return actions.of[0];
}

}  // namespace

TEST_CASE("the levels differ where a body is in the way", "[unit]") {
  // The nearest bean is right of A, behind B's body.
  const game::State s = top(R"(
    ........v...........
    ........v...........
    .....>>Avo..........
    ........v...........
    ........B...........)");
  CHECK(first_action(Opponent::kLevel1, s) == game::kRight);  // blind
  CHECK(first_action(Opponent::kLevel2, s) == game::kUp);     // unblocked, up before down
  CHECK(first_action(Opponent::kLevel3, s) == game::kUp);     // 1 + 5 is more than sqrt(5)
  CHECK(first_action(Opponent::kLevel4, s) == game::kUp);
  CHECK(first_action(Opponent::kEvasion, s) == game::kUp);
}

TEST_CASE("level 3 walks into a body where the way round costs more than 5", "[unit]") {
  // A's only free move is up, over the edge: the distance becomes sqrt(50). Down is sqrt(2), and 5 for B's
  // body.
  const game::State s = top(R"(
    >>Av................
    ..v<................
    ..Bo................
    ....................
    ....................)");
  CHECK(first_action(Opponent::kLevel3, s) == game::kDown);
  CHECK(first_action(Opponent::kLevel2, s) == game::kUp);
  CHECK(first_action(Opponent::kLevel4, s) == game::kUp);
}

TEST_CASE("where all moves are blocked, levels 2 and 4 go up and the others to the bean", "[unit]") {
  const game::State s = top(R"(
    .....>>v............
    .....>Av............
    .....^<<............
    ........o...........
    ....................)");
  CHECK(first_action(Opponent::kLevel2, s) == game::kUp);
  CHECK(first_action(Opponent::kLevel4, s) == game::kUp);
  CHECK(first_action(Opponent::kLevel1, s) == game::kDown);  // down and right tie
  CHECK(first_action(Opponent::kLevel3, s) == game::kDown);
  CHECK(first_action(Opponent::kEvasion, s) == game::kDown);
}

TEST_CASE("level 2 gives each bean to one snake, the other levels do not", "[unit]") {
  const game::State s = game::drawn(R"(
    ....................
    ..>>A...............
    .........o..........
    ..>>B...............
    ....................
    ....................
    ................>>C.
    >>D................o
    >>E...o............o
    >>F................o)");
  game::Actions exclusive{}, shared{};
  game::act(Opponent::kLevel2, s, 0, exclusive, 0, 0);
  game::act(Opponent::kLevel4, s, 0, shared, 0, 0);
  CHECK(exclusive.of[0] == game::kRight);
  CHECK(shared.of[1] == game::kRight);
  CHECK(exclusive.of[1] == game::kDown);  // A has the bean in row 2, B goes for the one in row 8
}

TEST_CASE("evasion does not enter a cell without a way on", "[unit]") {
  const game::State s = top(R"(
    ....................
    .......>v...........
    ....>>A.vo..........
    .......B<...........
    ....................)");
  CHECK(first_action(Opponent::kLevel2, s) == game::kRight);
  CHECK(first_action(Opponent::kEvasion, s) == game::kUp);
}

TEST_CASE("evasion counts a cell around a corner for the move that reaches it first", "[unit]") {
  // Right of A the only continuation is a cell that up reaches earlier: right is no candidate although it is nearer.
  const game::State s = top(R"(
    ....................
    ....................
    ....>>A.v...........
    .......v<o..........
    .......B............)");
  CHECK(first_action(Opponent::kLevel2, s) == game::kRight);
  CHECK(first_action(Opponent::kEvasion, s) == game::kDown);
}

TEST_CASE("level 0 is uniform, and a function of seed, stream and step", "[unit]") {
  game::State s{};
  std::map<std::pair<int, int>, int> seen;
  const int n = 20000;
  for (int k = 0; k < n; ++k) {
    s.steps = static_cast<std::uint16_t>(1 + k % 200);
    game::Actions a{}, b{};
    for (int team = 0; team < 2; ++team) {
      game::act(Opponent::kLevel0, s, team, a, 1, static_cast<std::uint64_t>(k));
      game::act(Opponent::kLevel0, s, team, b, 1, static_cast<std::uint64_t>(k));
    }
    for (int i = 0; i < 6; ++i) {
      REQUIRE(a.of[i] == b.of[i]);
      ++seen[{i, a.of[i]}];
    }
  }
  for (int i = 0; i < 6; ++i)
    for (int d = 0; d < 4; ++d) CHECK(std::abs(seen[{i, d}] - n / 4) < 310);  // 5 sigma
}

TEST_CASE("opponents' names convert both ways", "[unit]") {
  for (const game::OpponentEntry& entry : game::kOpponents) {
    CAPTURE(entry.name);
    CHECK(game::try_opponent(entry.name) == entry.opponent);
    CHECK(game::name(entry.opponent) == entry.name);
    for (const std::string& level : game::fixed_levels()) {
      const Curriculum fixed = parse_curriculum("fixed:" + level);
      CHECK((fixed.fixed == entry.opponent) == entry.name.ends_with(level));
    }
  }
  CHECK(game::name(Opponent::kLevel3) == "level3");
  CHECK(game::name(Opponent::kEvasion) == "evasion");
  CHECK_FALSE(game::try_opponent("level5").has_value());
  CHECK_FALSE(game::try_opponent("").has_value());
}

TEST_CASE("the schedules change levels exactly at their boundaries", "[unit]") {
  const auto levels = [](const char* name, std::int64_t episodes) {
    std::vector<std::int64_t> first(6, -1);  // the first episode of each level
    for (std::int64_t e = episodes; e >= 1; --e)
      first[static_cast<std::size_t>(difficulty_at(parse_curriculum(name), e, episodes))] = e;
    return first;
  };
  CHECK(levels("curriculum", 1000) == std::vector<std::int64_t>{1, 100, 300, 600, 850, -1});
  CHECK(levels("curriculum", 20) == std::vector<std::int64_t>{1, 2, 6, 12, 17, -1});
  CHECK(levels("linear", 1000) == std::vector<std::int64_t>{1, 250, 500, 750, 1000, -1});
  CHECK(levels("exponential", 1000) == std::vector<std::int64_t>{1, 397, 630, 826, 1000, -1});
  CHECK(levels("linear", 1) == std::vector<std::int64_t>{-1, -1, -1, -1, 1, -1});
  // Training that continues after max_episodes stays at the last level.
  for (const char* name : {"curriculum", "linear", "exponential"})
    CHECK(difficulty_at(parse_curriculum(name), 5000, 1000) == 4);
  CHECK(difficulty_at(parse_curriculum("fixed:3"), 1, 1000) == 3);
  CHECK(difficulty_at(parse_curriculum("fixed:evasion"), 1, 1000) == 5);
  CHECK_THROWS_AS(difficulty_at(parse_curriculum("linear"), 0, 1000), core::Bug);
  CHECK_THROWS_AS(difficulty_at(parse_curriculum("linear"), 1, 0), core::Bug);
}

TEST_CASE("evasion takes over from its start episode on, where it is enabled", "[unit]") {
  const Curriculum schedule = parse_curriculum("curriculum");
  CHECK(opponent_at(schedule, 399, 1000, true, 400) == Opponent::kLevel2);
  CHECK(opponent_at(schedule, 400, 1000, true, 400) == Opponent::kEvasion);
  CHECK(opponent_at(schedule, 1000, 1000, true, 400) == Opponent::kEvasion);
  CHECK(opponent_at(schedule, 400, 1000, false, 400) == Opponent::kLevel2);
  CHECK(opponent_at(parse_curriculum("fixed:evasion"), 1, 10, false, 0) == Opponent::kEvasion);
}

TEST_CASE("schedules are parsed, and others rejected with the valid forms", "[unit]") {
  using Kind = game::Curriculum::Kind;
  CHECK(parse_curriculum("curriculum").kind == Kind::kCurriculum);
  CHECK(parse_curriculum("linear").kind == Kind::kLinear);
  CHECK(parse_curriculum("exponential").kind == Kind::kExponential);
  CHECK(parse_curriculum("fixed:4") == game::Curriculum{Kind::kFixed, Opponent::kLevel4});
  for (const char* text :
       {"", "Linear", "fixed", "fixed:", "fixed:5", "fixed:-1", "fixed:44", "fixed:level2", "random"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_curriculum(text), core::UsageError);
  }
  CHECK_THROWS_WITH(parse_curriculum("x"), Catch::Contains("fixed:LEVEL") && Catch::Contains("exponential"));
}

TEST_CASE("the score code says who leads, and at the end who won", "[unit]") {
  game::Position p = game::position_of(top(R"(
    ....................
    ....................
    .....>>A............
    ....................
    ....................)"));
  for (const auto& [a, b, done, code_a, code_b] : std::vector<std::array<int, 5>>{{3, 1, 0, 3, 4},
                                                                                  {1, 3, 0, 4, 3},
                                                                                  {2, 2, 0, 0, 0},
                                                                                  {3, 1, 1, 1, 2},
                                                                                  {-1, 0, 1, 2, 1},
                                                                                  {2, 2, 1, 0, 0}}) {
    p.returns = {a, b};
    p.done = done == 1;
    CHECK(game::score_code(game::make_state(p), 0) == code_a);
    CHECK(game::score_code(game::make_state(p), 1) == code_b);
  }
}

TEST_CASE("each reward rule pays what its table says", "[unit]") {
  using game::RewardRule;
  using game::shaped_reward;
  const game::State s = top(R"(
    ....................
    ....................
    .....>>A............
    ...........o........
    ....................)");  // the nearest bean of A: four columns and one row away
  const float distance = std::sqrt(17.0F);
  const float scores_2021[5] = {0, 50, -25, 10, -5}, scores_v1[5] = {0, 100, -100, 30, -30};
  for (int code = 0; code < 5; ++code) {
    CHECK(shaped_reward(RewardRule::k2021, s, 0, 1, code) == Approx(scores_2021[code] + 20));
    CHECK(shaped_reward(RewardRule::k2021, s, 0, 0, code) == Approx(scores_2021[code] - distance));
    CHECK(shaped_reward(RewardRule::k2021, s, 0, -4, code) == Approx(scores_2021[code] - distance - 10));
    CHECK(shaped_reward(RewardRule::kV11, s, 0, 1, code) == Approx(scores_v1[code] + 30 - 50));
    CHECK(shaped_reward(RewardRule::kV11, s, 0, 0, code) == Approx(scores_v1[code] - 50));
    CHECK(shaped_reward(RewardRule::kV11, s, 0, -4, code) == Approx(scores_v1[code] + 0.1));
    CHECK(shaped_reward(RewardRule::kV12, s, 0, 1, code) == Approx(scores_v1[code] + 30 + 0.1));
    CHECK(shaped_reward(RewardRule::kV12, s, 0, 0, code) == Approx(scores_v1[code] + 0.1));
    CHECK(shaped_reward(RewardRule::kV12, s, 0, -4, code) == Approx(scores_v1[code] - 50));
    CHECK(shaped_reward(RewardRule::kScore, s, 0, -4, code) == -4.0F);
  }
  CHECK(game::try_reward_rule("v1_2") == RewardRule::kV12);
  CHECK_FALSE(game::try_reward_rule("v1_0").has_value());
}

TEST_CASE("thirty features of a drawn board, by hand", "[unit]") {
  const game::State s = game::drawn(R"(
    ......v.............
    ......v.............
    ......B...........o.
    .o.>>A..............
    ....................
    ....o...............
    ................>>C.
    >>D................o
    >>E.................
    >>F................o)");
  float f[90];
  game::observe(game::ObsKind::k30, s, 0, f);
  // A's head (3, 5); right of it nothing; B above is at (2, 6); C at (6, 18).
  const float expected[14] = {3, 5, 0, 0, 2, 0, -1, 2, std::sqrt(5.0F), -4, 0, 4, 0, 0};
  for (int k = 0; k < 12; ++k) CHECK(f[k] == Approx(expected[k]));
  CHECK(f[12] == Approx(1.0 / (std::sqrt(2.0) + 1.0)));
  CHECK(f[13] == Approx(1.0 / (std::sqrt(7.0 * 7 + 3 * 3) + 1.0)));  // C is seven columns away over the edge
  const float tail[16] = {2, 18, 3, 1, 5, 4, 7, 19, 9, 19, 0, 0, 2, 6, 6, 18};
  for (int k = 0; k < 16; ++k) CHECK(f[14 + k] == tail[k]);
  // C's first two others are A and B; its own row starts at 60.
  CHECK(f[60] == 6);
  CHECK(f[61] == 18);
  CHECK(f[60 + 26] == 3);
  CHECK(f[60 + 28] == 2);
  CHECK(f[60 + 4] == 4);  // its neck
}

TEST_CASE("missing beans are zeros, and in the distances 0 0 40", "[unit]") {
  game::Position p = game::position_of(top(R"(
    ....................
    ....................
    .....>>A.o..........
    ....................
    ....................)"));
  p.done = true;
  p.beans = {49};
  float f[90], g[78];
  game::observe(game::ObsKind::k30, game::make_state(p), 0, f);
  game::observe(game::ObsKind::k26, game::make_state(p), 0, g);
  const float near[6] = {2, 0, 2, 0, 0, 40};
  for (int k = 0; k < 6; ++k) CHECK(f[6 + k] == near[k]);
  for (int k = 16; k < 26; ++k) CHECK(f[k] == 0);
  CHECK(g[6] == 2);
  CHECK(g[7] == 9);
  for (int k = 8; k < 16; ++k) CHECK(g[k] == 0);
}

TEST_CASE("a mix of opponents is read, and each has as many boards as its weight says, but one at least",
          "[unit]") {
  const game::Mix mix = game::parse_mix("level2:3,self:1.5,evasion");
  REQUIRE(mix.size() == 3);
  CHECK(mix[0].rival == game::Rival{Opponent::kLevel2});
  CHECK(mix[1].rival.is_self());
  CHECK(mix[2].weight == 1.0);
  using Counts = std::vector<std::int64_t>;
  CHECK(game::boards_of(mix, 11) == Counts{6, 3, 2});
  CHECK(game::boards_of(mix, 3) == Counts{1, 1, 1});
  CHECK(game::boards_of(mix, 4) == Counts{2, 1, 1});
  CHECK(game::boards_of(game::parse_mix("level2:0.001,self"), 100) == Counts{1, 99});
  CHECK(game::boards_of(game::parse_mix("level2:0.1,territory:0.35,self:0.3,league:0.25"), 128) ==
        Counts{13, 45, 38, 32});
  for (std::int64_t boards = 3; boards < 300; ++boards) {
    const Counts counts = game::boards_of(mix, boards);
    CHECK(counts[0] + counts[1] + counts[2] == boards);
    for (std::size_t k = 0; k < 3; ++k)
      CHECK(std::abs(static_cast<double>(counts[k]) - mix[k].weight / 5.5 * static_cast<double>(boards)) < 1);
  }
  CHECK_THROWS_WITH(game::boards_of(mix, 2), Catch::Contains("--num_envs 2") && Catch::Contains("3 or more"));
  CHECK(game::parse_mix("").empty());
  CHECK(game::level_of(mix[0].rival) == 2);
  CHECK(game::level_of(mix[1].rival) == std::ssize(game::kOpponents));
  CHECK(game::level_of(mix[2].rival) == 5);
  const game::Mix with_league = game::parse_mix("self,league:2");
  CHECK_FALSE(with_league[0].league);
  CHECK(with_league[1].league);
  CHECK(game::level_of({std::nullopt, 3}) == std::ssize(game::kOpponents) + 1);
}

TEST_CASE("an opponent is its number's, and no other number is one", "[unit]") {
  std::vector<game::Rival> rivals = {{}, {std::nullopt, 0}, {std::nullopt, 7}, {std::nullopt, 599}};
  for (const auto& entry : game::kOpponents) rivals.push_back({entry.opponent});
  for (const game::Rival& rival : rivals) CHECK(game::rival_of(game::code_of(rival)) == rival);
  CHECK(game::code_of({}) == game::kSelfCode);
  CHECK_THROWS_AS(game::rival_of(std::ssize(game::kOpponents)), core::Bug);
  CHECK_THROWS_AS(game::rival_of(-1003), core::Bug);
}

TEST_CASE("a place is drawn as often as its weight says, one without weight never", "[unit]") {
  const std::vector<double> weights = {0, 2, 0, 1, 1, 0};
  std::array<int, 6> met{};
  for (int k = 0; k < 4000; ++k) ++met[game::place_of(k / 4000.0, weights)];
  CHECK(met == std::array<int, 6>{0, 2000, 0, 1000, 1000, 0});
  CHECK(game::place_of(0.99999999999999994, weights) == 4);
  CHECK_THROWS_AS(game::place_of(0.5, {0, 0}), core::Bug);
}

TEST_CASE("a mix may have teams from files, which are frozen and have numbers in their order", "[unit]") {
  const game::Mix mix = game::parse_mix("file:runs/a.pth:0.5,league,file:b.pth");
  REQUIRE(mix.size() == 3);
  CHECK(mix[0].file == "runs/a.pth");
  CHECK(mix[0].weight == 0.5);
  CHECK(mix[2].file == "b.pth");
  CHECK(mix[2].weight == 1.0);
  CHECK((mix[1].file.empty() && mix[1].league));
  for (const int k : {0, 2}) {
    const game::Share& share = mix[static_cast<std::size_t>(k)];
    CHECK((share.rival.is_frozen() && !share.rival.is_self() && !share.league));
    CHECK(share.rival.frozen == game::Rival::kFirstFile + k / 2);
  }
  const game::Mix said = game::parse_mix("file:a.pth:tanh:0.5,file:b.pth:softmax:ahead");
  CHECK((said[0].file == "a.pth" && said[0].words == std::vector<std::string>{"tanh"} &&
         said[0].weight == 0.5));
  CHECK((said[1].file == "b.pth" && said[1].words.size() == 2 && said[1].weight == 1.0));
}

TEST_CASE("an invalid mix is a usage error that lists the valid forms", "[unit]") {
  for (const char* text : {"level9", "self:0", "self:-1", "self:x", "self:1:2", "level2,", "self,self",
                           "self:nan", "file", "file:", "file::1", "file:a.pth:x", "file:a.pth:argmax",
                           "file:a.pth:1:2", "file:a.pth:1,file:a.pth:2"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(game::parse_mix(text), core::UsageError);
    CHECK_THROWS_WITH(game::parse_mix(text), Catch::Contains(text) && Catch::Contains("level2:0.7,self:0.3"));
  }
}
