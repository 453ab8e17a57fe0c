// The fast game and opponents against the plain ones.
#include "boards.hpp"
#include "plain_game.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/position.hpp"

using namespace snake_ddp;

namespace {

/// Moves for all snakes: each board has its own mixture, from random to skilled, to cover all kinds of games.
game::Actions choose(const game::State& s, core::RandomStream& random, int board) {
  game::Actions actions{};
  constexpr game::Opponent kPlayers[4] = {game::Opponent::kLevel2, game::Opponent::kEvasion,
                                          game::Opponent::kLevel3, game::Opponent::kLevel1};
  for (int team = 0; team < 2; ++team) game::act(kPlayers[(board >> team) % 4], s, team, actions, 0, 0);
  const std::uint32_t percent_random = board % 5 == 0 ? 100 : board % 5 == 1 ? 20 : 2;
  for (unsigned char& action : actions.of)
    if (random.below(100) < percent_random) action = static_cast<std::uint8_t>(random.below(4));
  return actions;
}

// Catch2's messages and assertions would take most of the time here, so they come only where something differs.
void compare(const game::State& fast, const plain::Game& slow) {
  const game::Position got = game::position_of(fast), expected = plain::position_of(slow);
  if (got == expected) return;
  INFO(game::picture(fast));
  REQUIRE(got.snakes == expected.snakes);
  REQUIRE(got.directions == expected.directions);
  REQUIRE(got.beans == expected.beans);
  REQUIRE(got.step == expected.step);
  REQUIRE(got.returns == expected.returns);
  REQUIRE(got.done == expected.done);
  FAIL("positions differ in something that is not compared here");
}

}  // namespace

TEST_CASE("the fast game is the plain game: 65 boards, 4096 steps each, equal chance", "[parity]") {
  constexpr int kBoards = 65, kSteps = 4096 / boards::kSlowdown;
  int deaths = 0, meals = 0, games = 0;
  for (int board = 0; board < kBoards; ++board) {
    core::RandomStream random(11, static_cast<std::uint64_t>(board), core::Purpose::kTest);
    game::State fast;
    plain::Game slow;
    std::uint64_t stream = 0;
    const auto start = [&] {
      stream = static_cast<std::uint64_t>(board) << 32 | static_cast<std::uint64_t>(games++);
      game::PhiloxChance chance(99, stream);
      game::reset(fast, chance);
      slow.reset({99, stream});
      compare(fast, slow);
    };
    start();
    for (int t = 0; t < kSteps; ++t) {
      const game::Actions actions = choose(fast, random, board);
      std::array<int, 6> plain_actions;
      std::copy(actions.of, actions.of + 6, plain_actions.begin());
      game::PhiloxChance chance(99, stream);
      const game::StepResult result = game::step(fast, actions, chance);
      slow.play(plain_actions, {99, stream});
      compare(fast, slow);
      REQUIRE(std::equal(slow.reward.begin(), slow.reward.end(), result.reward));
      REQUIRE(std::equal(slow.hit.begin(), slow.hit.end(), result.hit));
      for (int i = 0; i < 6; ++i) {
        deaths += result.hit[i];
        meals += result.reward[i] == 1 ? 1 : 0;
      }
      REQUIRE(result.done == slow.done);
      if (fast.done()) start();
    }
  }
  // The comparison covered play, not stationary boards.
  CHECK(deaths > kBoards * kSteps / 100);
  CHECK(meals > kBoards * kSteps / 100);
  CHECK(games > kBoards);
}

TEST_CASE("the fast game is the plain game on crowded boards, where snakes hardly come back", "[parity]") {
  core::RandomStream random(12, 0, core::Purpose::kTest);
  int empty = 0, gaps = 0, full = 0;
  const int n = 40000 / boards::kSlowdown;
  for (int k = 0; k < n; ++k) {
    const bool no_room = k % 2 == 0;
    const boards::Packed packed = boards::packed(random);
    game::State fast = no_room ? packed.state : boards::crowded(random, 120);
    plain::Game slow = plain::game_of(game::position_of(fast));
    const auto stream = static_cast<std::uint64_t>(k);
    for (int t = 0; t < 4 && !fast.done(); ++t) {
      game::Actions actions;
      std::array<int, 6> plain_actions;
      for (int i = 0; i < 6; ++i) {
        const bool on = no_room && t == 0 && random.below(8) != 0;
        actions.of[i] = on ? packed.onward.of[i] : static_cast<std::uint8_t>(random.below(4));
        plain_actions[static_cast<std::size_t>(i)] = actions.of[i];
      }
      game::PhiloxChance chance(98, stream);
      game::step(fast, actions, chance);
      slow.play(plain_actions, {98, stream});
      compare(fast, slow);
      game::check_consistency(fast);
      full += fast.segments() > 195 ? 1 : 0;
      for (int i = 0; i < 6; ++i) {
        empty += fast.length(i) == 0 ? 1 : 0;
        gaps += fast.length(i) == 3 && fast.cells[fast.tails[i]] >> 3 >= game::kTwoRight ? 1 : 0;
      }
    }
  }
  INFO(empty << " empty snakes, " << gaps << " with a gap, " << full << " full boards");
  CHECK(gaps > n / 100);
  CHECK(empty > n / 100);
  CHECK(full > n / 100);
}

TEST_CASE("the scripted opponents choose as the reference's formulas say, ties included", "[parity]") {
  core::RandomStream random(13, 0, core::Purpose::kTest);
  const int n = 20000 / boards::kSlowdown;
  for (int k = 0; k < n; ++k) {
    const game::State s = boards::crowded(random, 24 + k % 160);
    const plain::Game slow = plain::game_of(game::position_of(s));
    for (int team = 0; team < 2; ++team) {
      for (int level = 1; level <= 5; ++level) {
        game::Actions got{{9, 9, 9, 9, 9, 9}};
        game::act(static_cast<game::Opponent>(level), s, team, got, 0, 0);
        const std::array<int, 3> moves = plain::opponents(slow, team, level);
        game::Actions expected{{9, 9, 9, 9, 9, 9}};
        std::copy(moves.begin(), moves.end(), expected.of + 3 * team);
        if (std::equal(got.of, got.of + 6, expected.of)) continue;
        FAIL("team " << team << ", level " << level << ", moves " << Catch::Detail::stringify(got.of)
                     << " instead of " << Catch::Detail::stringify(expected.of) << "\n"
                     << game::picture(s));
      }
    }
  }
}
