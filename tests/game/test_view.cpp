// The view against one written slowly from the board, and the laws that it must obey.
#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <vector>

#include "boards.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/mirror.hpp"
#include "snake_ddp/game/moves.hpp"
#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/game/sides.hpp"

using namespace snake_ddp;

namespace {

constexpr int kFeatures = game::obs_size(game::ObsKind::kWindow);
using Rows = std::array<std::vector<float>, 3>;

Rows view_of(const game::State& s, int team, game::ObsKind kind = game::ObsKind::kWindow) {
  const int size = game::obs_size(kind);
  std::vector<float> flat(static_cast<std::size_t>(3 * size), -99.0F);
  game::observe(kind, s, team, flat.data());
  Rows rows;
  for (int i = 0; i < 3; ++i)
    rows[static_cast<std::size_t>(i)].assign(flat.begin() + i * size, flat.begin() + (i + 1) * size);
  return rows;
}

// By the direction that is up: how a step down and a step to the right change row and column.
struct Step {
  int rows, columns;
};
constexpr Step kDownwards[4] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
constexpr Step kRightwards[4] = {{0, 1}, {0, -1}, {-1, 0}, {1, 0}};
// Moves ahead, back, to the left and to the right as directions, by heading.
constexpr int kTurned[4][4] = {{game::kUp, game::kDown, game::kLeft, game::kRight},
                               {game::kDown, game::kUp, game::kRight, game::kLeft},
                               {game::kLeft, game::kRight, game::kDown, game::kUp},
                               {game::kRight, game::kLeft, game::kUp, game::kDown}};

int around(int difference, int side) {
  while (difference > side / 2) difference -= side;
  while (difference <= -side / 2) difference += side;
  return difference;
}

// None is dead, or came back with its head in the middle.
bool has_six_whole_snakes(const game::Position& p) {
  for (const auto& body : p.snakes) {
    for (std::size_t k = 1; k < body.size(); ++k) {
      const int rows = around(body[k] / 20 - body[k - 1] / 20, 10),
                columns = around(body[k] % 20 - body[k - 1] % 20, 20);
      if (std::abs(rows) + std::abs(columns) != 1) return false;
    }
    if (body.empty()) return false;
  }
  return true;
}

// A direct implementation of docs/reference/formats.md, from the position alone, where `up` is up.
std::vector<float> plain_view(const game::Position& p, int snake, int up = game::kUp) {
  const Step down = kDownwards[up], right = kRightwards[up];
  const int team = snake / 3;
  const auto& me = p.snakes[static_cast<std::size_t>(snake)];
  const int head = me.empty() ? 0 : me[0];
  std::vector<float> out;
  struct Cell {
    bool body = false, bean = false, mate = false, foe = false;
    int age = 0;
  };
  const auto cell_at = [&](int row, int column) {
    const int cell = (row + 10) % 10 * 20 + (column + 20) % 20;
    Cell c;
    for (int i = 0; i < 6; ++i) {
      const auto& body = p.snakes[static_cast<std::size_t>(i)];
      for (std::size_t k = 0; k < body.size(); ++k) {
        if (body[k] != cell) continue;
        c.body = true;
        c.age = static_cast<int>(body.size() - k);
        if (k == 0 && i != snake) (i / 3 == team ? c.mate : c.foe) = true;
      }
    }
    c.bean = std::count(p.beans.begin(), p.beans.end(), cell) > 0;
    return c;
  };
  std::vector<Cell> window;
  for (int dy = -3; dy <= 3; ++dy) {
    for (int dx = -3; dx <= 3; ++dx)
      window.push_back(cell_at(head / 20 + dy * down.rows + dx * right.rows,
                               head % 20 + dy * down.columns + dx * right.columns));
  }
  for (const Cell& c : window) out.push_back(c.body ? 1.0F : 0.0F);
  for (const Cell& c : window) out.push_back(static_cast<float>(c.age) / 10.0F);
  for (const Cell& c : window) out.push_back(c.bean ? 1.0F : 0.0F);
  for (const Cell& c : window) out.push_back(c.mate ? 1.0F : 0.0F);
  for (const Cell& c : window) out.push_back(c.foe ? 1.0F : 0.0F);

  using Seen = std::tuple<int, int, int, int>;  // squared distance, dy, dx, length
  const auto seen = [&](int cell, int length) {
    const int rows = cell / 20 - head / 20, columns = cell % 20 - head % 20;
    const int dy = around(rows * down.rows + columns * down.columns, down.rows != 0 ? 10 : 20),
              dx = around(rows * right.rows + columns * right.columns, right.rows != 0 ? 10 : 20);
    return Seen{dx * dx + dy * dy, dy, dx, length};
  };
  std::vector<Seen> beans, mates, foes;
  for (const int b : p.beans) beans.push_back(seen(b, 0));
  for (int i = 0; i < 6; ++i) {
    const auto& body = p.snakes[static_cast<std::size_t>(i)];
    if (i != snake)
      (i / 3 == team ? mates : foes)
          .push_back(seen(body.empty() ? 0 : body[0], static_cast<int>(body.size())));
  }
  for (auto* list : {&beans, &mates, &foes}) std::sort(list->begin(), list->end());
  beans.resize(5);  // a missing one is 0 0
  for (const auto& [d, dy, dx, length] : beans) {
    out.push_back(static_cast<float>(dx) / 5.0F);
    out.push_back(static_cast<float>(dy) / 5.0F);
  }
  for (auto* list : {&mates, &foes}) {
    for (const auto& [d, dy, dx, length] : *list) {
      out.push_back(static_cast<float>(dx) / 5.0F);
      out.push_back(static_cast<float>(dy) / 5.0F);
      out.push_back(static_cast<float>(length - static_cast<int>(me.size())) / 10.0F);
    }
  }
  for (int d = 0; d < 4; ++d) out.push_back(p.directions[static_cast<std::size_t>(snake)] == d ? 1.0F : 0.0F);
  out.push_back(static_cast<float>(me.size()) / 10.0F);
  out.push_back(static_cast<float>(p.step) / 200.0F);
  const auto us = static_cast<std::size_t>(team);
  out.push_back(static_cast<float>(p.returns[us] - p.returns[1 - us]) / 10.0F);
  return out;
}

void require_near(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  const auto [differing, its] = std::mismatch(got.begin(), got.end(), expected.begin(),
                                              [](float a, float b) { return std::abs(a - b) < 1e-5F; });
  if (differing == got.end()) return;
  FAIL("feature " << differing - got.begin() << " is " << *differing << " instead of " << *its);
}

// Boards of play, of crowds, and without room.
template <class See>
void on_many_boards(See see) {
  core::RandomStream random(3, 1, core::Purpose::kTest);
  for (std::uint64_t g = 0; g < 12 / boards::kSlowdown + 2; ++g) {
    game::State s;
    game::PhiloxChance chance(4, g);
    game::reset(s, chance);
    while (!s.done()) {
      see(s);
      game::Actions actions{};
      game::act(static_cast<game::Opponent>(g % 6), s, 0, actions, 1, g);
      game::act(game::Opponent::kLevel4, s, 1, actions, 1, g);
      game::step(s, actions, chance);
    }
    see(s);
  }
  for (int k = 0; k < 2000 / boards::kSlowdown; ++k) {
    see(boards::crowded(random, 20 + k % 120));
    see(boards::packed(random).state);
  }
}

game::State shifted(const game::State& s, int rows, int columns) {
  game::Position p = game::position_of(s);
  const auto move = [&](int& cell) { cell = (cell / 20 + rows) % 10 * 20 + (cell % 20 + columns) % 20; };
  for (auto& body : p.snakes)
    for (int& cell : body) move(cell);
  for (int& cell : p.beans) move(cell);
  return game::make_state(p);
}

}  // namespace

TEST_CASE("the view equals a plain one computed from the board", "[parity]") {
  on_many_boards([](const game::State& s) {
    const game::Position p = game::position_of(s);
    for (int team = 0; team < 2; ++team) {
      const Rows rows = view_of(s, team);
      for (int i = 0; i < 3; ++i)
        require_near(rows[static_cast<std::size_t>(i)], plain_view(p, team * 3 + i));
    }
  });
}

TEST_CASE("with the heading up, the view equals a plain one, and its moves are turned", "[parity]") {
  using game::ObsKind;
  for (int up = 0; up < 4; ++up) {
    for (int move = 0; move < 4; ++move) {
      REQUIRE(game::direction_of(up, move) == kTurned[up][move]);
      REQUIRE(game::move_of(up, kTurned[up][move]) == move);
    }
  }
  on_many_boards([](const game::State& s) {
    const game::Position p = game::position_of(s);
    for (int team = 0; team < 2; ++team) {
      const Rows rows = view_of(s, team, ObsKind::kAhead), upright = view_of(s, team, ObsKind::kView);
      for (int i = 0; i < 3; ++i) {
        const int snake = team * 3 + i, heading = s.direction(snake);
        const std::vector<float>& row = rows[static_cast<std::size_t>(i)];
        REQUIRE(game::up_in(ObsKind::kAhead, row.data()) == heading);
        std::vector<float> expected = plain_view(p, snake, heading);
        for (const int direction : kTurned[heading]) {
          const auto move_features = upright[static_cast<std::size_t>(i)].begin() + kFeatures +
                                     direction * game::view::kMoveFeatures;
          expected.insert(expected.end(), move_features, move_features + game::view::kMoveFeatures);
        }
        require_near(row, expected);
      }
    }
  });
}

TEST_CASE("with the heading up, a board turned by 180 degrees looks the same", "[property]") {
  int turned = 0;
  on_many_boards([&](const game::State& s) {
    game::Position p = game::position_of(s);
    if (!has_six_whole_snakes(p)) return;
    for (auto& body : p.snakes)
      for (int& cell : body) cell = 199 - cell;
    for (int& cell : p.beans) cell = 199 - cell;
    for (int& direction : p.directions) direction ^= 1;
    const game::State t = game::make_state(p);
    for (int team = 0; team < 2; ++team) {
      Rows before = view_of(s, team, game::ObsKind::kAhead), after = view_of(t, team, game::ObsKind::kAhead);
      for (std::size_t i = 0; i < 3; ++i) {
        std::swap_ranges(after[i].begin() + 270, after[i].begin() + 271, after[i].begin() + 271);
        std::swap_ranges(after[i].begin() + 272, after[i].begin() + 273, after[i].begin() + 273);
        REQUIRE(before[i] == after[i]);
      }
    }
    ++turned;
  });
  CHECK(turned > 300 / boards::kSlowdown);
}

TEST_CASE("a mirrored board has the mirrored features", "[property]") {
  using game::ObsKind;
  // Which of two at the same distance comes first, and the sign of half the way around, are not mirrored.
  const auto ambiguous = [](const std::vector<float>& row) {
    const auto of_some = [&](int first, int last, int floats) {
      for (int at = first; at < last; at += floats) {
        const float dx = row[static_cast<std::size_t>(at)], dy = row[static_cast<std::size_t>(at + 1)];
        if (std::abs(dx) == 2.0F || std::abs(dx) == 1.0F) return true;  // half of a side
        for (int other = first; other < at; other += floats) {
          const float x = row[static_cast<std::size_t>(other)], y = row[static_cast<std::size_t>(other + 1)];
          if (x * x + y * y == Approx(dx * dx + dy * dy)) return true;
        }
      }
      return false;
    };
    using namespace game::view;
    return of_some(kBeans, kMates, 2) || of_some(kMates, kFoes, 3) || of_some(kFoes, kHeading, 3);
  };
  int compared = 0;
  on_many_boards([&](const game::State& s) {
    game::Position p = game::position_of(s);
    if (!has_six_whole_snakes(p)) return;
    for (auto& body : p.snakes)
      for (int& cell : body) cell += 19 - 2 * (cell % 20);
    for (int& cell : p.beans) cell += 19 - 2 * (cell % 20);
    for (int& direction : p.directions) direction ^= direction >= game::kLeft ? 1 : 0;
    const game::State t = game::make_state(p);
    for (const ObsKind kind : {ObsKind::kWindow, ObsKind::kView, ObsKind::kAhead}) {
      const std::vector<core::MirrorImage> images = game::mirror_of(kind).inputs;
      for (int team = 0; team < 2; ++team) {
        const Rows before = view_of(s, team, kind), after = view_of(t, team, kind);
        for (std::size_t i = 0; i < 3; ++i) {
          if (ambiguous(before[i])) continue;
          std::vector<float> expected;
          for (const core::MirrorImage& image : images)
            expected.push_back(image.sign * before[i][static_cast<std::size_t>(image.of)]);
          std::vector<float> row = after[i];
          row.resize(expected.size());
          if (kind == ObsKind::kAhead) {  // a mirrored board's heading is its own
            for (int d = game::kLeft; d < game::kMoves; ++d) {
              expected[static_cast<std::size_t>(kFeatures - 7 + d)] = 0;
              row[static_cast<std::size_t>(kFeatures - 7 + d)] = 0;
            }
          }
          REQUIRE(row == expected);
          ++compared;
        }
      }
    }
  });
  CHECK(compared > 300 / boards::kSlowdown);
}

TEST_CASE("the view shows what the drawing shows", "[unit]") {
  const game::State s = boards::top(R"(
    ...............o....
    ....................
    .....>>>A...........
    .........B<<........
    o...................)");
  const auto a = view_of(s, 0)[0];
  CHECK(a[24] == 1.0F);               // its own head, in the middle of the window
  CHECK(a[49 + 24] == Approx(0.4F));  // gone after four steps
  CHECK(a[49 + 23] == Approx(0.3F));
  CHECK(a[147 + 24] == 0.0F);     // its own head is not a mate's
  CHECK(a[147 + 32] == 1.0F);     // B's is, one down and one to the right
  CHECK(a[255] == Approx(0.2F));  // B: dx 1, dy 1, one shorter
  CHECK(a[256] == Approx(0.2F));
  CHECK(a[257] == Approx(-0.1F));
  CHECK(a[270 + game::kRight] == 1.0F);
  CHECK(a[274] == Approx(0.4F));
}

TEST_CASE("a shifted board looks the same", "[property]") {
  core::RandomStream random(5, 1, core::Purpose::kTest);
  on_many_boards([&](const game::State& s) {
    if (s.done()) return;  // an empty snake is at cell 0 of any shifted board
    const game::State t = shifted(s, static_cast<int>(random.below(10)), static_cast<int>(random.below(20)));
    for (int team = 0; team < 2; ++team) REQUIRE(view_of(s, team) == view_of(t, team));
  });
}

TEST_CASE("swapping snakes within a team does not change the view", "[property]") {
  on_many_boards([](const game::State& s) {
    game::Position p = game::position_of(s);
    for (const auto& [a, b] : {std::pair{0, 2}, std::pair{1, 2}, std::pair{3, 5}}) {
      std::swap(p.snakes[static_cast<std::size_t>(a)], p.snakes[static_cast<std::size_t>(b)]);
      std::swap(p.directions[static_cast<std::size_t>(a)], p.directions[static_cast<std::size_t>(b)]);
    }
    std::reverse(p.beans.begin(), p.beans.end());
    const game::State t = game::make_state(p);
    // 0 <-> 2, then 1 <-> 2: the first two swaps together turn team A round.
    const Rows before = view_of(s, 0), after = view_of(t, 0);
    REQUIRE(after[0] == before[2]);
    REQUIRE(after[1] == before[0]);
    REQUIRE(after[2] == before[1]);
    const Rows foes_before = view_of(s, 1), foes_after = view_of(t, 1);
    REQUIRE(foes_after[0] == foes_before[2]);
    REQUIRE(foes_after[1] == foes_before[1]);
  });
}

TEST_CASE("team B sees what team A sees of the board with sides swapped", "[property]") {
  on_many_boards([](const game::State& s) {
    const game::State t = game::with_sides_swapped(s);
    game::check_consistency(t);
    REQUIRE(game::with_sides_swapped(t) == s);
    for (const auto kind : {game::ObsKind::k26, game::ObsKind::k30, game::ObsKind::kWindow,
                            game::ObsKind::kView, game::ObsKind::kAhead}) {
      std::vector<float> a(3 * game::kMaxObsSize, 0.0F), b(a);
      game::observe(kind, s, 1, b.data());
      game::observe(kind, t, 0, a.data());
      REQUIRE(a == b);
    }
    for (int i = 0; i < 6; ++i) REQUIRE(game::fatal_moves(s, i) == game::fatal_moves(t, (i + 3) % 6));
  });
}

TEST_CASE("a fatal move kills whatever the others do, a reversal is replaced", "[property]") {
  core::RandomStream random(6, 1, core::Purpose::kTest);
  int fatal = 0, spared = 0;
  on_many_boards([&](const game::State& s) {
    if (s.done()) return;
    for (int snake = 0; snake < 6; ++snake) {
      const unsigned bits = game::fatal_moves(s, snake);
      const int back = s.direction(snake) ^ 1;
      REQUIRE((bits >> back & 1U) == 1U);
      for (int d = 0; d < 4; ++d) {
        if (d == back) continue;
        bool lived = false;
        for (int others = 0; others < 8; ++others) {
          game::State t = s;
          game::Actions actions{};
          for (std::uint8_t& a : actions.of) a = static_cast<std::uint8_t>(random.below(4));
          actions.of[snake] = static_cast<std::uint8_t>(d);
          game::PhiloxChance chance(7, random.next());
          const game::StepResult r = game::step(t, actions, chance);
          REQUIRE(r.turned[snake] == d);
          if ((bits >> d & 1U) != 0) {
            REQUIRE(r.hit[snake] == 1);
            ++fatal;
          }
          lived = lived || r.hit[snake] == 0;
        }
        spared += (bits >> d & 1U) == 0 && lived;
      }
    }
  });
  CHECK(fatal > 1000);
  CHECK(spared > 1000);
}

TEST_CASE("a tail's cell may be entered, a neck's may not, and a snake without a way out has all four",
          "[unit]") {
  const game::State s = boards::top(R"(
    ....................
    ..>>v...............
    ..>Av...............
    ..^<<...............
    ....................)");
  // A heads away from its neck, which is left of it.
  CHECK(s.direction(0) == game::kRight);
  CHECK(game::fatal_moves(s, 0) == 15U);
  CHECK(game::open_moves(s, 0) == 15U);
  const game::State ring = boards::top(R"(
    ....................
    ..>v................
    ..^A................
    ....................
    ....................)");
  CHECK(game::fatal_moves(ring, 0) == (1U << game::kUp));  // left is the own tail, which moves on
  CHECK(game::open_moves(ring, 0) == (15U & ~(1U << game::kUp)));
}
