#include <map>

#include "boards.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/position.hpp"

using namespace snake_ddp;
using boards::right;
using boards::Scripted;
using boards::top;
using game::kDown;
using game::kLeft;
using game::kRight;
using game::kUp;

namespace {

std::vector<int> body(const game::State& s, int snake) { return game::position_of(s).snakes[snake]; }
std::vector<int> beans(const game::State& s) { return game::position_of(s).beans; }

}  // namespace

TEST_CASE("a reversal is replaced by another direction, other moves are made as chosen", "[unit]") {
  game::State s = top(R"(
    ....................
    ....................
    ......>>A...........
    ....................
    ....................)");
  game::Actions actions = right();
  actions.of[0] = kLeft;
  Scripted chance{.turns = {kDown, kUp, kUp, kUp, kUp, kUp}};
  const game::StepResult result = game::step(s, actions, chance);
  CHECK(body(s, 0) == std::vector<int>{68, 48, 47});
  CHECK(s.direction(0) == kDown);
  CHECK(result.turned[0] == kDown);
  CHECK(result.turned[1] == kRight);
  CHECK(s.direction(1) == kRight);
  CHECK(std::all_of(result.hit, result.hit + 6, [](int h) { return h == 0; }));
  game::check_consistency(s);
}

TEST_CASE("a replaced direction may be the present one", "[unit]") {
  game::State s = top(R"(
    ....................
    ....................
    ......>>A...........
    ....................
    ....................)");
  game::Actions actions = right();
  actions.of[0] = kLeft;
  Scripted chance{.turns = {kRight, 0, 0, 0, 0, 0}};
  game::step(s, actions, chance);
  CHECK(body(s, 0) == std::vector<int>{49, 48, 47});
}

TEST_CASE("the board is a torus", "[unit]") {
  for (const auto& [direction, from, to] : std::vector<std::tuple<int, int, int>>{
           {kUp, 5, 185}, {kDown, 185, 5}, {kLeft, 60, 79}, {kRight, 79, 60}, {kUp, 30, 10}, {kRight, 0, 1}})
    CHECK(game::follow(from, direction) == to);
  CHECK(game::follow(18, game::kTwoRight) == 0);
  CHECK(game::follow(19, game::kTwoRight) == 1);
  CHECK(game::follow(165, game::kTwoDown) == 5);
  CHECK(game::follow(185, game::kTwoDown) == 25);
}

TEST_CASE("a bean is eaten by the first snake that comes, which keeps its tail and gets 1", "[unit]") {
  game::State s = top(R"(
    ....................
    ..>>Ao..............
    ....................
    .......o............
    ....................)");
  const std::vector<int> before = beans(s);
  Scripted chance{.beans = {199}};
  const game::StepResult result = game::step(s, right(), chance);
  CHECK(result.reward[0] == 1);
  CHECK(body(s, 0) == std::vector<int>{25, 24, 23, 22});
  CHECK(s.length(0) == 4);
  CHECK(s.team_return(0) == 1);
  CHECK(s.team_return(1) == 0);
  // Taken off the list in its place; the new one is appended.
  REQUIRE(before[0] == 25);
  CHECK(beans(s) == std::vector<int>{before[1], before[2], before[3], before[4], 199});
  CHECK(s.code(25) == 2);
  CHECK(s.code(199) == 1);
}

TEST_CASE("two heads on one cell both die, and a bean there is the lower snake's", "[unit]") {
  game::State s = top(R"(
    ....................
    ....................
    ....>>>AoB<<........
    ....................
    ....................)");
  game::Actions actions = right();
  actions.of[1] = kLeft;
  Scripted chance{.beans = {199}};
  const game::StepResult result = game::step(s, actions, chance);
  CHECK(result.hit[0] == 1);
  CHECK(result.hit[1] == 1);
  CHECK(result.reward[0] == 3 - 5 + 1);  // length after the move is 5, and it ate
  CHECK(result.reward[1] == 0);
  CHECK(s.bean_count() == 5);
  CHECK(s.team_return(0) == -1);
  game::check_consistency(s);
}

TEST_CASE("three heads on one cell all die", "[unit]") {
  game::State s = top(R"(
    ........v...........
    ........v...........
    ........C...........
    .....>>A.B<<........
    ....................)");
  game::Actions actions = right();
  actions.of[1] = kLeft;
  actions.of[2] = kDown;
  Scripted chance;
  const game::StepResult result = game::step(s, actions, chance);
  for (int i = 0; i < 6; ++i) CHECK(result.hit[i] == (i < 3 ? 1 : 0));
  // They respawn in index order, each around what is already there: A takes 1 0 20, B 2 3 22.
  CHECK(body(s, 0) == std::vector<int>{1, 0, 20});
  CHECK(body(s, 1) == std::vector<int>{3, 2, 22});
  CHECK(body(s, 2) == std::vector<int>{5, 4, 24});
  game::check_consistency(s);
}

TEST_CASE("heads that change places both die", "[unit]") {
  game::State s = top(R"(
    ....................
    ....................
    .....>>AB<<.........
    ....................
    ....................)");
  game::Actions actions = right();
  actions.of[1] = kLeft;
  Scripted chance;
  const game::StepResult result = game::step(s, actions, chance);
  CHECK(result.hit[0] == 1);
  CHECK(result.hit[1] == 1);
}

TEST_CASE("a head on another body dies alone", "[unit]") {
  game::State s = top(R"(
    ....................
    .......A<<..........
    .......v............
    .......v............
    .......B............)");
  game::Actions actions = right();
  actions.of[0] = kDown;
  actions.of[1] = kDown;
  // B's tail leaves the cell below A, so A lives; were B to eat, A would die.
  game::State eats = game::make_state([&] {
    game::Position p = game::position_of(s);
    p.beans[0] = 107;
    return p;
  }());
  Scripted chance{.beans = {198}};
  game::StepResult result = game::step(s, actions, chance);
  CHECK(result.hit[0] == 0);
  CHECK(s.head(0) == 47);
  result = game::step(eats, actions, chance);
  CHECK(result.hit[0] == 1);
  CHECK(result.hit[1] == 0);
  CHECK(result.reward[1] == 1);
  CHECK(eats.code(47) == 3);
  game::check_consistency(eats);
}

TEST_CASE("a snake may follow its own tail, not bite its body", "[unit]") {
  const char* const ring = R"(
    ....................
    .....A<.............
    .....>^.............
    ....................
    ....................)";
  game::State s = top(ring);
  game::Actions actions = right();
  actions.of[0] = kDown;
  Scripted chance;
  CHECK(game::step(s, actions, chance).hit[0] == 0);
  CHECK(body(s, 0) == std::vector<int>{45, 25, 26, 46});

  game::State longer = top(R"(
    ....................
    .....A<.............
    ....>>^.............
    ....................
    ....................)");
  const game::StepResult result = game::step(longer, actions, chance);
  CHECK(result.hit[0] == 1);
  CHECK(result.reward[0] == 3 - 5);
  CHECK(longer.length(0) == 3);
}

TEST_CASE("dead snakes leave the board before any respawns", "[unit]") {
  // A and B run into each other on row 0; both bodies are gone when A respawns, so it starts at cell 0.
  game::State s = top(R"(
    >>A.B<<.............
    ....................
    ....................
    ....................
    ....................)");
  game::Actions actions = right();
  actions.of[1] = kLeft;
  Scripted chance;
  const game::StepResult result = game::step(s, actions, chance);
  CHECK((result.hit[0] == 1 && result.hit[1] == 1));
  CHECK(body(s, 0) == std::vector<int>{1, 0, 20});
  CHECK(s.direction(0) == kRight);
  CHECK(body(s, 1) == std::vector<int>{3, 2, 22});
}

namespace {

/// The body that snake 0 comes back with on a board whose free cells are these.
std::vector<int> comes_back(const std::vector<int>& free, int& direction) {
  game::State s{};
  for (int c = 0; c < game::kCells; ++c) s.cells[c] = 3;
  for (const int c : free) s.cells[c] = 0;
  if (!game::rules::come_back(s, 0)) return {};
  direction = s.direction(0);
  return body(s, 0);
}

}  // namespace

TEST_CASE("a snake comes back as a line, a bend, or a line with its head in the middle", "[unit]") {
  struct Case {
    const char* what;
    std::vector<int> free, body;
    int direction;
  };
  const std::vector<Case> cases = {
      {"right and down of the first: a bend, its corner in the middle", {45, 46, 65}, {46, 45, 65}, kRight},
      {"right and up: only by wrapping, as the cell above comes first in the scan otherwise",
       {5, 6, 185},
       {6, 5, 185},
       kRight},
      {"right, then on: a line", {45, 46, 47}, {45, 46, 47}, kLeft},
      {"down, then on: a line", {45, 65, 85}, {45, 65, 85}, kUp},
      {"right, then down: already in order", {45, 46, 66}, {45, 46, 66}, kLeft},
      {"right and left, over the edge: head in the middle", {60, 61, 79}, {60, 61, 79}, kLeft},
      {"down and up, over the edge: head in the middle", {5, 25, 185}, {5, 25, 185}, kUp},
      {"down and left, over the edge: a bend", {60, 80, 79}, {80, 60, 79}, kDown},
      {"up and left, over the edges: a bend", {0, 19, 180}, {180, 0, 19}, kDown},
      {"first in row 0, its neighbour above in row 9: direction by bare comparison",
       {5, 185, 165},
       {5, 185, 165},
       kUp},
      {"the first free cells hang together with too few: the next place",
       {3, 4, 45, 46, 47},
       {45, 46, 47},
       kLeft},
      {"one free cell beside the edge is no place", {0, 100, 120, 140}, {100, 120, 140}, kUp},
      {"the scan finds the upper rows first", {45, 46, 65, 44, 25, 24}, {25, 24, 44}, kRight},
      {"of three ways on, right and down", {60, 61, 79, 80}, {61, 60, 80}, kRight},
      {"left is the last choice: left, then on", {79, 60, 78}, {60, 79, 78}, kLeft},
      {"no room", {3, 4, 45, 46, 199}, {}, -1},
      {"no room at all", {}, {}, -1},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    int direction = -1;
    CHECK(comes_back(c.free, direction) == c.body);
    CHECK(direction == c.direction);
  }
}

TEST_CASE("a snake with its head in the middle moves on and draws its body behind it", "[unit]") {
  game::Position p = game::position_of(top(R"(
    ....................
    ....................
    ....................
    .....>>A............
    ....................)"));
  p.snakes[0] = {60, 61, 79};
  p.directions[0] = kLeft;
  game::State s = game::make_state(p);
  CHECK(s.cell(0, 0) == 60);
  CHECK(s.cell(0, 1) == 61);
  CHECK(s.cell(0, 2) == 79);
  game::Actions actions = right();
  Scripted chance;
  actions.of[0] = kUp;
  game::step(s, actions, chance);
  CHECK(body(s, 0) == std::vector<int>{40, 60, 61});
  game::step(s, actions, chance);
  CHECK(body(s, 0) == std::vector<int>{20, 40, 60});
  game::check_consistency(s);
}

namespace {

/// The cells of two rows, from column `first` to `last` and back in the row below: each is a neighbour of the
/// one before it, and the first of the last.
std::vector<int> ring(int row, int first, int last) {
  std::vector<int> cells;
  for (int c = first; c <= last; ++c) cells.push_back(row * 20 + c);
  for (int c = last; c >= first; --c) cells.push_back((row + 1) * 20 + c);
  return cells;
}

/// Snakes 0 to 3 fill rows 0 to 7 with rings, each head above its own tail, looking left.
game::Position rings() {
  game::Position p;
  for (int i = 0; i < 4; ++i) p.snakes[i] = ring(2 * i, 0, 19);
  p.directions = {kLeft, kLeft, kLeft, kLeft, kLeft, kLeft};
  return p;
}

}  // namespace

TEST_CASE("the game ends when five and all segments are more than the board has", "[unit]") {
  // Snake 4 is one more ring, snake 5 eats on the rest. 194 segments: one more makes 5 + 195 = 200, not more
  // than 200.
  for (const int length : {14, 15}) {
    game::Position p = rings();
    p.snakes[4] = ring(8, 0, 9);
    const std::vector<int> place = ring(8, 10, 19);
    p.snakes[5].assign(place.end() - length, place.end());
    p.beans.assign(place.end() - length - 5, place.end() - length);
    game::State s = game::make_state(p);
    REQUIRE(s.segments() == 180 + length);
    Scripted chance;
    if (length == 14) chance.beans = {place[0]};
    const game::StepResult result = game::step(s, {{kDown, kDown, kDown, kDown, kDown, kLeft}}, chance);
    for (int i = 0; i < 6; ++i) CHECK(result.hit[i] == 0);
    CHECK(result.reward[5] == 1);
    CHECK(result.done == (length == 15));
    CHECK(s.bean_count() == (length == 15 ? 4 : 5));  // with 196 segments no cell is left for the fifth
    game::check_consistency(s);
  }
}

TEST_CASE("a snake that finds no room stays empty and ends the game", "[unit]") {
  // Snakes 5 and 4 go round the last two rows, 4 behind 5. Snake 5 turns off into 3 and dies, 4 moves on into
  // the cell that 5's tail left: two cells of 5 and one of 4's tail are free, apart from each other.
  game::Position p = rings();
  const std::vector<int> last = ring(8, 0, 19);
  p.snakes[5].assign(last.begin() + 10, last.begin() + 13);
  p.snakes[4].assign(last.begin() + 13, last.end());
  p.snakes[4].insert(p.snakes[4].end(), last.begin(), last.begin() + 5);
  p.beans.assign(last.begin() + 5, last.begin() + 10);
  game::State s = game::make_state(p);
  Scripted chance;
  const game::StepResult result = game::step(s, {{kDown, kDown, kDown, kDown, kLeft, kUp}}, chance);
  CHECK(std::vector<int>(result.hit, result.hit + 6) == std::vector<int>{0, 0, 0, 0, 0, 1});
  CHECK(s.length(5) == 0);
  CHECK(body(s, 5).empty());
  CHECK(s.free_cells() == 3);
  CHECK(result.done);
  CHECK(s.step() == 2);
  game::check_consistency(s);
  CHECK(game::drawn(game::picture(s)) == s);

  // Were 4 to turn off as well, there would be room again: 5 takes its own three cells.
  game::State room = game::make_state(p);
  CHECK_FALSE(game::step(room, {{kDown, kDown, kDown, kDown, kUp, kUp}}, chance).done);
  CHECK(room.length(5) == 3);
}

TEST_CASE("a full game has 200 steps, and a game that is done stays as it is", "[unit]") {
  game::PhiloxChance chance(1, 2);
  game::State s;
  game::reset(s, chance);
  CHECK(s.step() == 1);
  int steps = 0;
  while (!s.done()) {
    ++steps;
    CHECK(game::step(s, right(), chance).done == (steps == 200));
  }
  CHECK(steps == 200);
  CHECK(s.step() == 201);
  const game::State before = s;
  const game::StepResult result = game::step(s, right(), chance);
  CHECK(s == before);
  CHECK(result.done);
  CHECK(std::all_of(result.reward, result.reward + 6, [](int r) { return r == 0; }));
}

TEST_CASE("an action above 3 is refused", "[unit]") {
  game::PhiloxChance chance(1, 2);
  game::State s;
  game::reset(s, chance);
  game::Actions actions = right();
  actions.of[4] = 4;
  const game::State before = s;
  CHECK_THROWS_AS(game::step(s, actions, chance), core::UsageError);
  CHECK_THROWS_WITH(game::step(s, actions, chance), "the action of snake 4 is 4, not 0..3");
  CHECK(s == before);
}

TEST_CASE("at the start a snake grows from its cell in its direction, and draws again where it does not fit",
          "[unit]") {
  Scripted chance{.beans = {100, 3, 150, 149, 7},
                  .starts = {{0, kUp},      // 0, 180, 160
                             {161, kLeft},  // 161, 160: taken
                             {39, kRight},  // 39, 20, 21
                             {50, kDown},
                             {99, kLeft},
                             {119, kLeft},
                             {139, kLeft}}};
  game::State s;
  game::reset(s, chance);
  CHECK(body(s, 0) == std::vector<int>{160, 180, 0});
  CHECK(body(s, 1) == std::vector<int>{21, 20, 39});
  CHECK(body(s, 2) == std::vector<int>{90, 70, 50});
  CHECK(body(s, 5) == std::vector<int>{137, 138, 139});
  CHECK(s.direction(0) == kUp);
  CHECK(beans(s) == std::vector<int>{100, 3, 150, 149, 7});
  CHECK(s.step() == 1);
  CHECK_FALSE(s.done());
  game::check_consistency(s);
}

TEST_CASE("the n-th free cell is what a count from cell 0 gives", "[unit]") {
  game::PhiloxChance chance(7, 7);
  game::State s;
  game::reset(s, chance);
  int r = 0;
  for (int c = 0; c < game::kCells; ++c)
    if (s.code(c) == 0) CHECK(s.nth_free(r++) == c);
  CHECK(r == s.free_cells());
}

TEST_CASE("Philox's replaced directions are uniform over the three allowed, for each snake by itself",
          "[unit]") {
  std::map<std::pair<int, int>, int> seen;
  std::map<int, int> pairs;
  const int n = 30000;
  game::State s{};
  s.steps = 1;
  for (int stream = 0; stream < n; ++stream) {
    game::PhiloxChance chance(5, static_cast<std::uint64_t>(stream));
    chance.begin_step(s);
    for (int i = 0; i < 6; ++i) ++seen[{i, chance.turn(i, kLeft)}];
    ++pairs[chance.turn(2, kLeft) * 4 + chance.turn(3, kLeft)];
  }
  for (int i = 0; i < 6; ++i) {
    CHECK(seen[{i, kLeft}] == 0);
    for (const int d : {kUp, kDown, kRight}) CHECK(std::abs(seen[{i, d}] - n / 3) < 400);  // 5 sigma
  }
  CHECK(pairs.size() == 9);
  for (const auto& [pair, count] : pairs) CHECK(std::abs(count - n / 9) < 300);
}

TEST_CASE("a drawing that is not a board is rejected", "[unit]") {
  const std::string good = game::picture(top(R"(
    ....................
    ....................
    .....>>A............
    ....................
    ....................)"));
  CHECK_NOTHROW(game::drawn(good));
  const auto broken = [&good](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  CHECK_THROWS_AS(game::drawn(broken(">>A", "..A")), core::Bug);
  CHECK_THROWS_AS(game::drawn(broken(">>A", ">.A")), core::Bug);
  CHECK_THROWS_AS(game::drawn(broken(">>A", "...")), core::Bug);
  CHECK_THROWS_AS(game::drawn(broken(">>A", "<>A")), core::Bug);
  CHECK_THROWS_AS(game::drawn(broken(">>A.", "?>>A")), core::Bug);
  CHECK_THROWS_AS(game::drawn(broken("....\n", "...\n")), core::Bug);
  CHECK_THROWS_AS(game::drawn(broken("A right", "A forward")), core::Bug);
  CHECK_THROWS_AS(game::drawn(broken("beans ", "beans 0 ")), core::Bug);
  CHECK_THROWS_AS(game::drawn(broken("step 1", "stop 1")), core::Bug);
}

TEST_CASE("the consistency check detects each kind of damage", "[unit]") {
  game::PhiloxChance chance(3, 4);
  game::State good;
  game::reset(good, chance);
  CHECK_NOTHROW(game::check_consistency(good));
  const auto damaged = [&good](auto change) {
    game::State s = good;
    change(s);
    return s;
  };
  CHECK_THROWS_AS(check_consistency(damaged([](game::State& s) { s.cells[s.heads[2]] = 0; })), core::Bug);
  CHECK_THROWS_AS(check_consistency(damaged([](game::State& s) { s.cells[s.nth_free(0)] = 4; })), core::Bug);
  CHECK_THROWS_AS(check_consistency(damaged([](game::State& s) { s.cells[s.nth_free(0)] = 1; })), core::Bug);
  CHECK_THROWS_AS(check_consistency(damaged([](game::State& s) { s.beans[1] = s.beans[0]; })), core::Bug);
  CHECK_THROWS_AS(check_consistency(damaged([](game::State& s) { s.lengths[3] = 4; })), core::Bug);
  CHECK_THROWS_AS(check_consistency(damaged([](game::State& s) { s.lengths[3] = 2; })), core::Bug);
  CHECK_THROWS_AS(check_consistency(damaged([](game::State& s) { s.lengths[3] = 0; })), core::Bug);
  CHECK_THROWS_AS(check_consistency(damaged([](game::State& s) { s.heads[0] = s.heads[1]; })), core::Bug);
  CHECK_THROWS_AS(check_consistency(damaged([](game::State& s) { s.steps = 202; })), core::Bug);
  CHECK_THROWS_AS(check_consistency(damaged([](game::State& s) { s.directions[0] = 4; })), core::Bug);
  CHECK_THROWS_AS(check_consistency(damaged([](game::State& s) { --s.n_beans; })), core::Bug);
}
