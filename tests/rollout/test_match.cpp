#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <iterator>
#include <vector>

#include "nets/dense.hpp"
#include "nets/mlp.hpp"
#include "nets/policy.hpp"
#include "rollout/player.hpp"
#include "snake_ddp/game/position.hpp"

namespace {

using namespace snake_ddp;

rollout::Player scripted(game::Opponent who) { return {who, nullptr, {}, false}; }

void require_equal(const play::MatchResult& a, const play::MatchResult& b) {
  CHECK(a.games == b.games);
  CHECK(a.wins == b.wins);
  CHECK(a.draws == b.draws);
  CHECK(a.losses == b.losses);
  CHECK(a.score_a == b.score_a);
  CHECK(a.score_b == b.score_b);
  CHECK(a.steps == b.steps);
}

}  // namespace

TEST_CASE("a match adds up to the same numbers however its games are shared", "[unit]") {
  nets::DenseNet net({30, 32, 4, nets::Head::kSoftmax, false}, at::kCPU);
  net.init(1);
  const auto actor = nets::make_policy(net.named(), nets::Head::kSoftmax, "test");
  const rollout::Player a{std::nullopt, actor.get(), {}, false};
  for (const auto who : {game::Opponent::kLevel0, game::Opponent::kLevel2}) {
    play::MatchOptions options{200, 9};
    const play::MatchResult whole = rollout::play_match(a, scripted(who), options);
    CHECK(whole.games == 200);
    CHECK(whole.wins + whole.draws + whole.losses == 200);
    for (const std::int64_t parts : {2, 3, 5}) {
      play::MatchResult sum;
      for (std::int64_t part = 0; part < parts; ++part) {
        options.part = part;
        options.parts = parts;
        sum.add(rollout::play_match(a, scripted(who), options));
      }
      require_equal(sum, whole);
    }
  }
}

TEST_CASE("with sides swapped a player wins against itself about as often as it loses", "[property]") {
  for (const auto who : {game::Opponent::kLevel0, game::Opponent::kLevel2}) {
    const play::MatchResult r = rollout::play_match(scripted(who), scripted(who), {2000, 3});
    const double decided = static_cast<double>(r.wins + r.losses);
    REQUIRE(decided > 1000);
    CHECK(static_cast<double>(r.wins) / decided == Approx(0.5).margin(0.06));
  }
}

TEST_CASE("the teams of a match and its games draw numbers of their own, whichever side a team is on",
          "[unit]") {
  // The same probabilities for every snake: the moves show the drawn numbers.
  nets::DenseNet net({30, 8, 4, nets::Head::kSoftmax, false}, at::kCPU);
  for (auto& [name, tensor] : net.named()) tensor.zero_();
  const auto even = nets::make_policy(net.named(), nets::Head::kSoftmax, "test");
  const rollout::Player player{std::nullopt, even.get(), {}, false};
  for (const bool swap_sides : {false, true}) {
    std::int64_t steps = 0, snakes_alike = 0, teams_alike = 0, games_alike = 0;
    std::vector<game::Actions> first_game;
    play::MatchOptions options{2, 5, swap_sides};
    options.on_step = [&](std::int64_t number, const game::Actions& actions, const game::StepResult&,
                          const game::State& after) {
      ++steps;
      const auto& of = actions.of;
      teams_alike += of[0] == of[3] && of[1] == of[4] && of[2] == of[5];
      snakes_alike += of[0] == of[1] && of[1] == of[2];
      const auto step = static_cast<std::size_t>(after.step() - 2);
      if (number == 0) {
        first_game.resize(std::max(first_game.size(), step + 1));
        first_game[step] = actions;
      } else if (step < first_game.size()) {
        games_alike += std::equal(std::begin(of), std::end(of), std::begin(first_game[step].of));
      }
    };
    rollout::play_match(player, player, options);
    REQUIRE(steps > 100);
    CHECK(teams_alike < steps / 10);   // 1 of 64
    CHECK(snakes_alike < steps / 4);   // 1 of 16
    CHECK(games_alike < steps / 100);  // 1 of 4096
  }
}

TEST_CASE("level 2 beats level 0 nearly always", "[property]") {
  const play::MatchResult r =
      rollout::play_match(scripted(game::Opponent::kLevel2), scripted(game::Opponent::kLevel0), {500, 1});
  CHECK(r.win_rate() > 0.95);
  CHECK(r.score_a > r.score_b);
}

TEST_CASE("a Q-network plays its best moves, and none that is certain death where these are masked",
          "[unit]") {
  nets::Mlp net({game::obs_size(game::ObsKind::kWindow), 16, 4, true}, at::kCPU, nets::kQNetName);
  net.init(1);
  const auto policy = nets::make_policy(net.named(), nets::Head::kIdentity, "test");
  rollout::Player player{std::nullopt, policy.get(), {game::ObsKind::kWindow, {}}, false, false};
  rollout::Player argmax = player, masked = player;
  argmax.argmax = true;
  masked.mask_fatal = true;
  const play::MatchOptions options{100, 4};
  const auto result = [&](const rollout::Player& p) {
    return rollout::play_match(p, scripted(game::Opponent::kLevel0), options);
  };
  const play::MatchResult a = result(player), b = result(argmax), c = result(masked);
  require_equal(a, b);
  CHECK(c.score_a > a.score_a);  // an untrained net runs into its neck otherwise
}

TEST_CASE("with the heading up, a network's outputs are for moves ahead, back, left and right", "[unit]") {
  nets::Mlp net({game::obs_size(game::ObsKind::kAhead), 16, 4, false}, at::kCPU, nets::kQNetName);
  for (const auto& [name, tensor] : net.named()) tensor.zero_();
  net.named().back().second.copy_(at::tensor({3.0F, 0.0F, 2.0F, 1.0F}));  // the last bias
  const auto policy = nets::make_policy(net.named(), nets::Head::kIdentity, "test");
  const rollout::Player player{std::nullopt, policy.get(), {game::ObsKind::kAhead}, false, true};
  play::MatchOptions options{4, 6, false};
  game::State last[4];
  std::int64_t ahead = 0, left = 0, right = 0;
  options.watch = [&](std::int64_t number, const game::State& state) { last[number] = state; };
  options.on_step = [&](std::int64_t number, const game::Actions& actions, const game::StepResult&,
                        const game::State&) {
    const game::State& before = last[number];
    constexpr int kLeftOf[4] = {game::kLeft, game::kRight, game::kDown, game::kUp};
    for (int i = 0; i < game::kTeamSize; ++i) {
      const int heading = before.direction(i), made = actions.of[i];
      const unsigned open = game::open_moves(before, i);
      const bool may_go_on = (open >> heading & 1U) != 0, may_left = (open >> kLeftOf[heading] & 1U) != 0;
      REQUIRE((made == heading) == may_go_on);
      REQUIRE((made == kLeftOf[heading]) == (!may_go_on && may_left));
      (made == heading ? ahead : made == kLeftOf[heading] ? left : right) += 1;
    }
  };
  rollout::play_match(player, scripted(game::Opponent::kLevel2), options);
  CHECK(ahead > 1000);
  CHECK(left > 20);
  CHECK(right > 0);
}

TEST_CASE("an actor's reasons are the probabilities that it draws from, and do not change the game",
          "[unit]") {
  nets::DenseNet net({30, 32, 4, nets::Head::kTanh, false}, at::kCPU);  // negative outputs count as 0
  net.init(1);
  const auto actor = nets::make_policy(net.named(), nets::Head::kTanh, "test");
  const rollout::Player player{std::nullopt, actor.get(), {}, false, true};
  std::vector<std::uint64_t> plain, explained;
  std::array<double, game::kMoves> expected{}, made{};
  play::MatchOptions options{4, 6, false};
  options.watch = [&](std::int64_t, const game::State& state) { plain.push_back(game::hash(state)); };
  rollout::play_match(player, scripted(game::Opponent::kLevel2), options);
  options.watch = [&](std::int64_t, const game::State& state) { explained.push_back(game::hash(state)); };
  options.on_reasons = [&](std::int64_t, int team, const play::Reasons& reasons) {
    CHECK(team == 0);
    CHECK(reasons.kind == play::Reasons::Kind::kProbabilities);
    for (const auto& worth : reasons.worth) {
      double sum = 0.0;
      for (std::size_t move = 0; move < game::kMoves; ++move) {
        if (std::isnan(worth[move])) continue;
        sum += worth[move];
        expected[move] += worth[move];
      }
      CHECK(sum == Approx(1.0));
    }
  };
  options.on_step = [&](std::int64_t, const game::Actions& actions, const game::StepResult&,
                        const game::State&) {
    for (int i = 0; i < game::kTeamSize; ++i) made[actions.of[i]] += 1.0;
  };
  rollout::play_match(player, scripted(game::Opponent::kLevel2), options);
  CHECK(explained == plain);
  for (std::size_t move = 0; move < game::kMoves; ++move)  // of 2400 moves
    CHECK(made[move] == Approx(expected[move]).margin(120));
}

TEST_CASE("a match stops on request", "[unit]") {
  play::MatchOptions options{1000, 3};
  std::int64_t asked = 0, stepped = 0;
  options.stop = [&] { return ++asked > 300; };  // in the second block
  options.on_step = [&](auto&&...) { stepped += asked > 300; };
  const play::MatchResult r =
      rollout::play_match(scripted(game::Opponent::kLevel0), scripted(game::Opponent::kLevel2), options);
  CHECK(r.games == 64);
  CHECK(stepped == 0);
}

TEST_CASE("Wilson's interval is that of his paper", "[unit]") {
  // By hand, z = 1.96: p = 0.5, n = 100.
  const play::Interval half = play::wilson_interval(50, 100);
  CHECK(half.low == Approx(0.40383).margin(1e-4));
  CHECK(half.high == Approx(0.59617).margin(1e-4));
  const play::Interval none = play::wilson_interval(0, 10);
  CHECK(none.low == 0.0);
  CHECK(none.high == Approx(0.27753).margin(1e-4));
  CHECK(play::wilson_interval(10, 10).high == Approx(1.0));
  CHECK(play::wilson_interval(0, 0).high == 1.0);
}
