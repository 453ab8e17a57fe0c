// Laws that hold in every game, and the pinned fingerprint of a thousand.
#include <rapidcheck.h>

#include "boards.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/game/reward.hpp"

using namespace snake_ddp;

namespace {

/// Empty where the step from `before` to `after` keeps the laws, else the law that it breaks.
const char* broken_law(const game::State& before, const game::Actions& actions,
                       const game::StepResult& result, const game::State& after) {
  int returns[2] = {before.team_return(0), before.team_return(1)};
  int length_gain[2] = {0, 0};
  bool empty = false;
  for (int i = 0; i < game::kSnakes; ++i) {
    const int team = i / game::kTeamSize, reward = result.reward[i];
    const bool reversal = actions.of[i] == (before.direction(i) ^ 1);
    if (!reversal && result.turned[i] != actions.of[i])
      return "a snake that does not turn back goes where it wants";
    if (reversal && result.turned[i] == actions.of[i]) return "no snake reverses";
    if (result.hit[i] != 0) {
      if (reward != game::kStartLength - before.length(i)) return "death costs the score";
      if (after.length(i) != game::kStartLength && after.length(i) != 0)
        return "the dead come back with length 3";
    } else {
      if (reward != 0 && reward != 1) return "the living get 0 or 1";
      if (after.length(i) != before.length(i) + reward) return "each bean is one segment";
      if (after.head(i) != game::follow(before.head(i), result.turned[i]))
        return "a head moves to the next cell";
      if (after.direction(i) != result.turned[i]) return "the direction is the move";
      if (reward == 1 && before.code(after.head(i)) != 1) return "only beans are eaten";
    }
    empty = empty || after.length(i) == 0;
    returns[team] += reward;
    length_gain[team] += after.length(i) == 0 ? 0 : after.length(i) - game::kStartLength;
  }
  for (int team = 0; team < 2; ++team) {
    if (after.team_return(team) != returns[team]) return "a team's return is the sum of its rewards";
    if (after.team_return(team) != length_gain[team])
      return "a team's return is what its snakes have grown by";
  }
  if (after.step() != before.step() + 1) return "a step is a step";
  const bool done = after.step() > game::kMaxSteps || game::kBeans + after.segments() > game::kCells || empty;
  if (after.done() != done || result.done != done) return "the end comes when the rules say";
  if (after.bean_count() < game::kBeans && after.free_cells() > 0) return "five beans while there is room";
  int kept = 0;  // the beans that stay keep their order
  for (int b = 0; b < before.bean_count() && kept < after.bean_count(); ++b)
    kept += before.bean(b) == after.bean(kept) ? 1 : 0;
  for (int b = kept; b < after.bean_count(); ++b)
    for (int old = 0; old < b; ++old)
      if (after.bean(old) == after.bean(b)) return "beans are distinct";
  return "";
}

game::Actions random_moves(core::RandomStream& random) {
  const std::uint32_t word = random.next();
  game::Actions actions;
  for (int i = 0; i < game::kSnakes; ++i)
    actions.of[i] = static_cast<std::uint8_t>(word >> (30 - 2 * i) & 3U);
  return actions;
}

}  // namespace

TEST_CASE("the laws hold in 100,000 random games", "[property]") {
  const int n = 100000 / (boards::kSlowdown * boards::kSlowdown / 2 + 1);
  core::RandomStream random(21, 0, core::Purpose::kTest);
  for (int k = 0; k < n; ++k) {
    game::PhiloxChance chance(22, static_cast<std::uint64_t>(k));
    game::State s;
    game::reset(s, chance);
    while (!s.done()) {
      const game::State before = s;
      const game::Actions actions = random_moves(random);
      const game::StepResult result = game::step(s, actions, chance);
      const char* const law = broken_law(before, actions, result, s);
      if (*law != '\0') FAIL(law << "\nbefore:\n" << game::picture(before) << "after:\n" << game::picture(s));
      if (s.step() % 50 == k % 50) game::check_consistency(s);
    }
    game::check_consistency(s);
  }
}

TEST_CASE("the laws hold in games of the scripted players, whose snakes grow long", "[property]") {
  const int n = 600 / boards::kSlowdown;
  core::RandomStream random(23, 0, core::Purpose::kTest);
  int longest = 0;
  for (int k = 0; k < n; ++k) {
    game::PhiloxChance chance(24, static_cast<std::uint64_t>(k));
    game::State s;
    game::reset(s, chance);
    while (!s.done()) {
      const game::State before = s;
      game::Actions actions{};
      for (int team = 0; team < 2; ++team)
        game::act(static_cast<game::Opponent>((k >> (3 * team)) % 6), s, team, actions, 25,
                  static_cast<std::uint64_t>(k));
      const game::StepResult result = game::step(s, actions, chance);
      const char* const law = broken_law(before, actions, result, s);
      if (*law != '\0') FAIL(law << "\nbefore:\n" << game::picture(before) << "after:\n" << game::picture(s));
      game::check_consistency(s);
      for (int i = 0; i < 6; ++i) longest = std::max(longest, s.length(i));
    }
  }
  CHECK(longest > 12);
}

TEST_CASE("a step's chance depends on seed, stream and step alone", "[property]") {
  core::RandomStream random(26, 0, core::Purpose::kTest);
  for (int k = 0; k < 200; ++k) {
    const auto stream = static_cast<std::uint64_t>(k);
    game::PhiloxChance kept(27, stream);
    game::State a;
    game::reset(a, kept);
    game::State b = a;
    while (!a.done()) {
      const game::Actions actions = random_moves(random);
      game::step(a, actions, kept);
      game::PhiloxChance fresh(27, stream);
      game::step(b, actions, fresh);
      REQUIRE(a == b);
    }
  }
}

TEST_CASE("a board drawn and read again is the same board", "[property]") {
  CHECK(rc::check([](std::uint32_t seed) {
    core::RandomStream random(28, seed, core::Purpose::kTest);
    game::State s = boards::crowded(random, 24 + static_cast<int>(seed % 160));
    for (int t = 0; t < 3 && !s.done(); ++t) {
      game::PhiloxChance chance(29, seed);
      game::step(s, random_moves(random), chance);
    }
    RC_ASSERT(game::drawn(game::picture(s)) == s);
    RC_ASSERT(game::make_state(game::position_of(s)) == s);
    RC_ASSERT(game::hash(game::drawn(game::picture(s))) == game::hash(s));
  }));
}

TEST_CASE("team B sees and plays what team A would in its place", "[property]") {
  CHECK(rc::check([](std::uint32_t seed) {
    core::RandomStream random(30, seed, core::Purpose::kTest);
    const game::State s = boards::crowded(random, 24 + static_cast<int>(seed % 160));
    game::Position p = game::position_of(s);
    std::rotate(p.snakes.begin(), p.snakes.begin() + 3, p.snakes.end());
    std::rotate(p.directions.begin(), p.directions.begin() + 3, p.directions.end());
    std::swap(p.returns[0], p.returns[1]);
    const game::State swapped = game::make_state(p);
    for (const auto kind : {game::ObsKind::k26, game::ObsKind::k30}) {
      std::vector<float> as_b(static_cast<std::size_t>(3 * game::obs_size(kind)), -99.0F), as_a = as_b;
      game::observe(kind, s, 1, as_b.data());
      game::observe(kind, swapped, 0, as_a.data());
      RC_ASSERT(as_a == as_b);
    }
    RC_ASSERT(game::score_code(s, 1) == game::score_code(swapped, 0));
    for (int level = 1; level <= 5; ++level) {
      game::Actions b{}, a{};
      game::act(static_cast<game::Opponent>(level), s, 1, b, 0, 0);
      game::act(static_cast<game::Opponent>(level), swapped, 0, a, 0, 0);
      RC_ASSERT(std::equal(b.of + 3, b.of + 6, a.of));
    }
  }));
}

TEST_CASE("a thousand games are the same games as ever", "[signature]") {
  std::uint64_t all = 0;
  for (int k = 0; k < 1000; ++k) {
    game::PhiloxChance chance(31, static_cast<std::uint64_t>(k));
    game::State s;
    game::reset(s, chance);
    while (!s.done()) {
      game::Actions actions{};
      for (int team = 0; team < 2; ++team)
        game::act(static_cast<game::Opponent>((k / (team == 0 ? 1 : 6)) % 6), s, team, actions, 32,
                  static_cast<std::uint64_t>(k));
      game::step(s, actions, chance);
      if (s.step() % 20 == 0) all = all * 31 + game::hash(s);
    }
    all = all * 31 + game::hash(s);
  }
  // A change here is a change of the rules, the chance or the opponents; its commit must say so.
  CHECK(all == 0xb9347b40d161f0b8ULL);
}
