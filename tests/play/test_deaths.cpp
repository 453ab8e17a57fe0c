// Causes of deaths: each one by hand on drawn boards, all of them against a plain count in random games.
#include <algorithm>
#include <ostream>
#include <set>

#include "../game/boards.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/game/rules.hpp"
#include "snake_ddp/play/deaths.hpp"
#include "snake_ddp/play/match.hpp"

namespace snake_ddp::play {
std::ostream& operator<<(std::ostream& out, Death cause) {
  return out << static_cast<int>(cause);
}  // for failures
}  // namespace snake_ddp::play

namespace {

using namespace snake_ddp;
using play::Death;

// Snakes A..F that died in a step in which all go right, or follow `actions`, with their causes.
std::vector<std::pair<char, Death>> deaths_on(const std::string& rows,
                                              game::Actions actions = boards::right()) {
  const game::State before = boards::top(rows);
  game::State after = before;
  const game::StepResult played = game::advance(after, actions, {1, 1});
  std::vector<std::pair<char, Death>> all;
  for (int i = 0; i < game::kSnakes; ++i) {
    if (played.hit[i] != 0) all.emplace_back(game::letter(i), play::why_died(before, played, i));
  }
  return all;
}

using Deaths = std::vector<std::pair<char, Death>>;
constexpr std::uint8_t kU = game::kUp, kL = game::kLeft, kR = game::kRight;

// The rules once more, on lists of cells.
struct Plain {
  std::array<std::vector<int>, game::kSnakes> bodies;  // after the move
  std::array<bool, game::kSnakes> ate{};

  Plain(const game::State& before, const game::StepResult& played) {
    game::Position p = game::position_of(before);
    for (std::size_t i = 0; i < game::kSnakes; ++i) {
      std::vector<int>& body = p.snakes[i];
      body.insert(body.begin(), game::follow(body.front(), played.turned[i]));
      const auto bean = std::find(p.beans.begin(), p.beans.end(), body.front());
      ate[i] = bean != p.beans.end();
      if (ate[i])
        p.beans.erase(bean);
      else
        body.pop_back();
    }
    bodies = p.snakes;
  }
  // Snakes with a segment, or with their head, where the snake's head is now.
  [[nodiscard]] std::set<int> there(int snake, bool heads) const {
    std::set<int> all;
    const int cell = bodies[static_cast<std::size_t>(snake)].front();
    for (int i = 0; i < game::kSnakes; ++i) {
      const std::vector<int>& body = bodies[static_cast<std::size_t>(i)];
      const bool is_there = heads ? i != snake && body.front() == cell
                                  : std::find(body.begin() + 1, body.end(), cell) != body.end();
      if (is_there) all.insert(i);
    }
    return all;
  }
};

// Snakes of `all` other than `snake` itself, of its own team or of the other.
std::vector<int> of_team(const std::set<int>& all, int snake, bool mates) {
  std::vector<int> some;
  for (const int i : all)
    if (i != snake && (i / 3 == snake / 3) == mates) some.push_back(i);
  return some;
}

// The group of the cause by the plain rules.
std::string_view plain_group(const game::State& before, const game::StepResult& played, int snake) {
  bool boxed = true;
  for (int d = 0; d < game::kMoves; ++d) {
    if (d == (before.direction(snake) ^ 1)) continue;
    const int cell = game::follow(before.head(snake), d);
    bool wall = false;
    for (int i = 0; i < game::kSnakes; ++i)
      for (int k = 0; k + 1 < before.length(i); ++k) wall = wall || before.cell(i, k) == cell;
    boxed = boxed && wall;
  }
  if (boxed) return "boxed_in";
  const Plain plain(before, played);
  if (const std::set<int> segments = plain.there(snake, false); !segments.empty()) {
    const int owner = *segments.begin();
    if (owner != snake && owner / 3 == snake / 3) return "mate";
    const bool last = plain.bodies[static_cast<std::size_t>(owner)].back() ==
                      plain.bodies[static_cast<std::size_t>(snake)].front();
    return last && plain.ate[static_cast<std::size_t>(owner)] ? "tail" : "body";
  }
  return of_team(plain.there(snake, true), snake, false).empty() ? "mate" : "head_on";
}

}  // namespace

TEST_CASE("two heads in one cell are a head-on, by length and by whether a safe move was open", "[unit]") {
  const game::Actions meet{{kR, kR, kR, kL, kR, kR}};
  CHECK(deaths_on("....................\n"
                  "....................\n"
                  ">>A.D<<.............\n"
                  "....................\n"
                  "....................\n",
                  meet) == Deaths{{'A', Death::kHeadOnEqualSafe}, {'D', Death::kHeadOnEqualSafe}});
  CHECK(deaths_on("....................\n"
                  "....................\n"
                  ">>>A.D<<............\n"
                  "....................\n"
                  "....................\n",
                  meet) == Deaths{{'A', Death::kHeadOnLongerSafe}, {'D', Death::kHeadOnShorterSafe}});
  // Walls of two mates leave only the cell where they meet; the snake is not boxed in, because that cell is free.
  CHECK(deaths_on("....................\n"
                  ">>>>>>>>B...........\n"
                  ">>>A.D<<............\n"
                  ">>>>>>>>C...........\n"
                  "....................\n",
                  meet) == Deaths{{'A', Death::kHeadOnLongerForced}, {'D', Death::kHeadOnShorterForced}});
  CHECK(deaths_on("....................\n"
                  ">>>>>>>>B...........\n"
                  ">>A.D<<.............\n"
                  ">>>>>>>>C...........\n"
                  "....................\n",
                  meet) == Deaths{{'A', Death::kHeadOnEqualForced}, {'D', Death::kHeadOnEqualForced}});
  // Above A a cell is free that E could enter, below it a tail of F's, which has a bean in front of it: neither is safe.
  CHECK(deaths_on("....................\n"
                  "...E<<..............\n"
                  ">>A.D<<.............\n"
                  "..>>Fo..............\n"
                  "....................\n",
                  {{kR, kR, kR, kL, kU, kR}}) ==
        Deaths{{'A', Death::kHeadOnEqualForced}, {'D', Death::kHeadOnEqualForced}});
  // Without the bean that tail is sure to go.
  CHECK(deaths_on("....................\n"
                  "...E<<..............\n"
                  ">>A.D<<.............\n"
                  "..>>F...............\n"
                  "....................\n",
                  {{kR, kR, kR, kL, kU, kR}})
            .front() == std::pair{'A', Death::kHeadOnEqualSafe});
}

TEST_CASE("of several heads the longest foe's counts, and a mate's only without a foe", "[unit]") {
  CHECK(deaths_on("....................\n"
                  "....................\n"
                  ">>>A.D<<............\n"
                  "....E...............\n"
                  "....^<<<............\n",
                  {{kR, kR, kR, kL, kU, kR}}) == Deaths{{'A', Death::kHeadOnShorterSafe},
                                                        {'D', Death::kHeadOnShorterSafe},
                                                        {'E', Death::kHeadOnLongerForced}});
  CHECK(deaths_on("....................\n"
                  ">>A.B<<.............\n"
                  "....................\n"
                  "....................\n"
                  "....................\n",
                  {{kR, kL, kR, kR, kR, kR}}) == Deaths{{'A', Death::kMatesHead}, {'B', Death::kMatesHead}});
}

TEST_CASE("a snake without a way out is boxed in, by a foe, else by a mate, else by itself", "[unit]") {
  CHECK(deaths_on(".>>v................\n"
                  ".>Av................\n"
                  ".^<<................\n"
                  "....................\n"
                  "....................\n") == Deaths{{'A', Death::kBoxedByItself}});
  CHECK(deaths_on(".>>v................\n"
                  ">>Av................\n"
                  ".v<<................\n"
                  ".B..................\n"
                  "....................\n") == Deaths{{'A', Death::kBoxedByMate}});
  CHECK(deaths_on(".>>v................\n"
                  ">>Av................\n"
                  ".v<<................\n"
                  ".E..................\n"
                  "....................\n") == Deaths{{'A', Death::kBoxedByFoe}});
  // Above its own body, to the right a mate, below a foe. The same for team B, whose mates are the others.
  CHECK(deaths_on(".v<<v...............\n"
                  ".>Dv<...............\n"
                  ".B<<................\n"
                  "....................\n"
                  "........>>A.........\n",
                  {{kR, kL, kR, kR, kR, kR}}) == Deaths{{'D', Death::kBoxedByFoe}});
  CHECK(deaths_on(".>>v................\n"
                  ">>Dv................\n"
                  ".v<<................\n"
                  ".E..................\n"
                  "........>>A.........\n") == Deaths{{'D', Death::kBoxedByMate}});
}

TEST_CASE("a tail stays if its snake eats, and of two heads on a bean the first one eats", "[unit]") {
  CHECK(deaths_on("....................\n"
                  ">>A>>Do.............\n"
                  "....................\n"
                  "....................\n"
                  "....................\n") == Deaths{{'A', Death::kFoesTail}});
  CHECK(deaths_on("....................\n"
                  ">>A>>Bo.............\n"
                  "....................\n"
                  "....................\n"
                  "....................\n") == Deaths{{'A', Death::kMatesTail}});
  CHECK(deaths_on("....................\n"
                  ">>A>>D.o............\n"
                  "....................\n"
                  "....................\n"
                  "....................\n")
            .empty());
  const game::Actions meet{{kR, kR, kR, kR, kL, kR}};
  CHECK(deaths_on("....................\n"
                  ">>A>>DoE<<..........\n"
                  "....................\n"
                  "....................\n"
                  "....................\n",
                  meet) ==
        Deaths{{'A', Death::kFoesTail}, {'D', Death::kMatesHead}, {'E', Death::kMatesHead}});
  CHECK(deaths_on("....................\n"
                  ">>A>>EoD<<..........\n"
                  "....................\n"
                  "....................\n"
                  "....................\n",
                  {{kR, kR, kR, kL, kR, kR}}) == Deaths{{'D', Death::kMatesHead}, {'E', Death::kMatesHead}});
  // A segment that stays in a cell has priority over other snakes that enter it.
  CHECK(deaths_on("....................\n"
                  ">>A>>Do.............\n"
                  "...E................\n"
                  "...^................\n"
                  "...^................\n",
                  {{kR, kR, kR, kR, kU, kR}}) == Deaths{{'A', Death::kFoesTail}, {'E', Death::kMatesTail}});
  // The tail moves on, because D gets the bean: only then do A and F meet.
  CHECK(deaths_on("....................\n"
                  ">>A>>EoD<<..........\n"
                  "...F................\n"
                  "...^................\n"
                  "...^................\n",
                  {{kR, kR, kR, kL, kR, kU}}) == Deaths{{'A', Death::kHeadOnEqualSafe},
                                                        {'D', Death::kMatesHead},
                                                        {'E', Death::kMatesHead},
                                                        {'F', Death::kHeadOnEqualSafe}});
}

TEST_CASE("a snake with a way out that runs into a body dies of that body", "[unit]") {
  for (const auto& [name, cause] : Deaths{{'D', Death::kFoesBody}, {'C', Death::kMatesBody}}) {
    std::string rows =
        "...v................\n"
        ">>Av................\n"
        "...#................\n"
        "....................\n"
        "....................\n";
    std::replace(rows.begin(), rows.end(), '#', name);
    CHECK(deaths_on(rows) == Deaths{{'A', cause}});
  }
  CHECK(deaths_on(".>>v................\n"
                  "..A<................\n"
                  "....................\n"
                  "....................\n"
                  "....................\n",
                  {{kU, kR, kR, kR, kR, kR}}) == Deaths{{'A', Death::kOwnBody}});
  // A cell where a head was contains a body afterwards.
  CHECK(deaths_on("....................\n"
                  ">>AD................\n"
                  "...^................\n"
                  "...^................\n"
                  "....................\n",
                  {{kR, kR, kR, kU, kR, kR}}) == Deaths{{'A', Death::kFoesBody}});
}

TEST_CASE("deaths add up by team, cause and half of the game, with the length above three", "[unit]") {
  game::State before = boards::top(
      "....................\n"
      "....................\n"
      ">>>>>A.D<<..........\n"
      "....................\n"
      "....................\n");
  play::DeathSums sums;
  for (const int step : {1, play::kLastEarlyStep, play::kLastEarlyStep + 1}) {
    before.steps = static_cast<std::uint16_t>(step);
    game::State after = before;
    const game::StepResult played = game::advance(after, {{kR, kR, kR, kL, kR, kR}}, {1, 1});
    play::count_deaths(before, played, 0, sums);
  }
  const auto& cause = sums.of[static_cast<int>(Death::kHeadOnLongerSafe)];
  CHECK(cause[0] == play::DeathSums::Sum{2, 6});
  CHECK(cause[1] == play::DeathSums::Sum{1, 3});
  CHECK(sums.total() == play::DeathSums::Sum{3, 9});
  CHECK(sums.group("head_on") == sums.total());
  CHECK(sums.group("mate") == play::DeathSums::Sum{});
  play::DeathSums twice = sums;
  twice.add(sums);
  CHECK(twice.total(1) == play::DeathSums::Sum{2, 6});
}

TEST_CASE("in random games each death has one cause and the boards lost what was counted", "[property]") {
  const auto games = static_cast<std::uint64_t>(2000 / boards::kSlowdown);
  std::set<int> seen;
  for (std::uint64_t game = 0; game < games; ++game) {
    game::State state = game::new_board({5, game});
    const auto team_b = game % 2 == 0 ? game::Opponent::kLevel2 : game::Opponent::kTerritory;
    const auto team_a = game % 3 == 0 ? game::Opponent::kLevel0 : game::Opponent::kLevel2;
    while (!state.done()) {
      game::Actions actions{};
      game::act(team_a, state, 0, actions, 5, game);
      game::act(team_b, state, 1, actions, 5, game);
      const game::State before = state;
      const game::StepResult played = game::advance(state, actions, {5, game});
      for (const int team : {0, 1}) {
        play::DeathSums sums;
        play::count_deaths(before, played, team, sums);
        std::int64_t died = 0, lost = 0, gone = 0;
        int lengths = 0;
        for (int i = 3 * team; i < 3 * team + 3; ++i) {
          lengths += state.length(i) - before.length(i) - (played.hit[i] == 0 ? played.reward[i] : 0);
          gone += played.hit[i] != 0 && state.length(i) == 0;
          if (played.hit[i] == 0) continue;
          ++died;
          lost -= played.reward[i];
          const Death cause = play::why_died(before, played, i);
          seen.insert(static_cast<int>(cause));
          REQUIRE(play::kDeaths[static_cast<std::size_t>(cause)].group == plain_group(before, played, i));
        }
        REQUIRE(sums.total() == play::DeathSums::Sum{died, lost});
        REQUIRE(sums.total().length == -lengths - game::kStartLength * gone);
        std::int64_t grouped = 0;
        for (const play::DeathGroup& group : play::kDeathGroups) grouped += sums.group(group.name).deaths;
        REQUIRE(grouped == died);
      }
    }
  }
  CHECK(seen.size() == play::kDeathKinds);
}

TEST_CASE("a match counts the deaths of both players, whichever side they play", "[unit]") {
  play::DeathSums by_hand[2];
  std::int64_t lost = 0;
  play::MatchOptions options{70, 3};
  std::vector<game::State> last(70);
  options.watch = [&](std::int64_t game, const game::State& state) {
    last[static_cast<std::size_t>(game)] = state;
  };
  options.on_step = [&](std::int64_t game, const game::Actions&, const game::StepResult& played,
                        const game::State&) {
    for (int team = 0; team < 2; ++team)
      play::count_deaths(last[static_cast<std::size_t>(game)], played, team,
                         by_hand[game % 2 == 1 ? 1 - team : team]);
    for (int i = 0; i < game::kSnakes; ++i) lost -= played.hit[i] != 0 ? played.reward[i] : 0;
  };
  const play::MatchResult r = play::play_match(play::scripted(game::Opponent::kLevel2),
                                               play::scripted(game::Opponent::kLevel1), options);
  CHECK(r.deaths_a == by_hand[0]);
  CHECK(r.deaths_b == by_hand[1]);
  CHECK(r.deaths_b.total().deaths > 2 * r.deaths_a.total().deaths);
  CHECK(r.deaths_a.total().length + r.deaths_b.total().length == lost);
}
