// Which snake reaches which cell when, against a search cell by cell; and the opponent that plays by it.
#include <array>
#include <set>
#include <vector>

#include "boards.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/moves.hpp"
#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/game/reach.hpp"
#include "snake_ddp/game/sides.hpp"

using namespace snake_ddp;

namespace {

using Cells = std::set<int>;

Cells cells_of(const game::CellSet& set) {
  Cells cells;
  for (int c = 0; c < game::kCells; ++c)
    if (set.contains(c)) cells.insert(c);
  return cells;
}

// Steps until each cell is free, 0 where it is.
std::array<int, game::kCells> ages_of(const game::State& s) {
  std::array<int, game::kCells> age{};
  for (int i = 0; i < game::kSnakes; ++i)
    for (int k = 0; k < s.length(i); ++k) age[static_cast<std::size_t>(s.cell(i, k))] = s.length(i) - k;
  return age;
}

// One step of a flood, by rows and columns.
template <class Closed>
Cells flooded(const Cells& from, Closed closed) {
  Cells to = from;
  for (const int cell : from) {
    const int row = cell / 20, column = cell % 20;
    for (const int next : {(row + 9) % 10 * 20 + column, (row + 1) % 10 * 20 + column,
                           row * 20 + (column + 19) % 20, row * 20 + (column + 1) % 20})
      if (!closed(next)) to.insert(next);
  }
  return to;
}

// [snake][step]
std::vector<std::vector<Cells>> plain_reach(const game::State& s) {
  const auto age = ages_of(s);
  std::vector<std::vector<Cells>> by(game::kSnakes);
  for (int i = 0; i < game::kSnakes; ++i) {
    auto& mine = by[static_cast<std::size_t>(i)];
    mine.push_back(s.length(i) > 0 ? Cells{s.head(i)} : Cells{});
    for (int t = 1; t <= game::kHorizon; ++t)
      mine.push_back(flooded(mine.back(), [&](int c) { return age[static_cast<std::size_t>(c)] > t; }));
  }
  return by;
}

game::MoveFeatures plain_outlook(const game::State& s, const std::vector<std::vector<Cells>>& by, int snake,
                                 int d) {
  game::MoveFeatures o;
  const auto age = ages_of(s);
  const int cell = game::follow(s.head(snake), d);
  if (s.length(snake) == 0 || d == (s.direction(snake) ^ 1) || age[static_cast<std::size_t>(cell)] > 1)
    return o;
  const auto taken = [&](int c, int t) {
    for (int i = 0; i < game::kSnakes; ++i) {
      if (i == snake) continue;
      const int within = i / 3 == snake / 3 ? t - 1 : t;
      if (by[static_cast<std::size_t>(i)][static_cast<std::size_t>(within)].count(c) > 0) return true;
    }
    return false;
  };
  for (int i = 0; i < game::kSnakes; ++i) {
    if (i == snake || by[static_cast<std::size_t>(i)][1].count(cell) == 0) continue;
    (i / 3 == snake / 3 ? o.mate_may_enter : o.foe_may_enter) = true;
  }
  Cells all{cell}, owned{cell};
  const auto beans_in = [&](const Cells& cells) {
    int n = 0;
    for (int b = 0; b < s.bean_count(); ++b) n += cells.count(s.bean(b)) > 0;
    return n;
  };
  for (int t = 1; t <= game::kHorizon; ++t) {
    if (t > 1) {
      all = flooded(all, [&](int c) { return age[static_cast<std::size_t>(c)] > t; });
      owned = flooded(owned, [&](int c) { return age[static_cast<std::size_t>(c)] > t || taken(c, t); });
    }
    if (beans_in(all) > 0) o.bean_distance = std::min(o.bean_distance, t);
    if (beans_in(owned) > 0) o.own_bean_distance = std::min(o.own_bean_distance, t);
  }
  o.room = static_cast<int>(all.size());
  o.territory = static_cast<int>(owned.size());
  o.beans = beans_in(owned);
  return o;
}

// Boards of games between scripted teams, the territory heuristic among them.
template <class Check>
void on_boards(int games, int every, Check check) {
  for (int g = 0; g < games; ++g) {
    game::State s;
    game::PhiloxChance chance(41, static_cast<std::uint64_t>(g));
    game::reset(s, chance);
    for (int t = 0; !s.done(); ++t) {
      if (t % every == 0) check(s);
      game::Actions actions{};
      game::act(g % 2 == 0 ? game::Opponent::kTerritory : game::Opponent::kLevel2, s, 0, actions, 1, 1);
      game::act(g % 3 == 0 ? game::Opponent::kTerritory : game::Opponent::kLevel0, s, 1, actions, 1, 1);
      game::PhiloxChance step_chance(41, static_cast<std::uint64_t>(g));
      game::step(s, actions, step_chance);
    }
    check(s);
  }
}

}  // namespace

TEST_CASE("sets of cells spread over the torus and are counted", "[unit]") {
  for (int c = 0; c < game::kCells; ++c) {
    game::CellSet one{};
    one.add(c);
    CHECK(cells_of(one) == Cells{c});
    CHECK(count(one) == 1);
    CHECK(cells_of(spread(one)) ==
          Cells{c, game::follow(c, 0), game::follow(c, 1), game::follow(c, 2), game::follow(c, 3)});
    game::CellSet rest{};
    for (int other = 0; other < game::kCells; ++other)
      if (other != c) rest.add(other);
    CHECK(count(rest) == game::kCells - 1);
    CHECK_FALSE(meet(one, rest));
    CHECK(meet(one | rest, one));
    CHECK(cells_of(without(one | rest, rest)) == Cells{c});
    CHECK(cells_of(rest & spread(one)).size() == 4);
  }
}

TEST_CASE("reach and outlook are those of a search cell by cell", "[property]") {
  int boards = 0, empty = 0;
  on_boards(6, 23, [&](const game::State& s) {
    ++boards;
    const game::Reach reach = game::reach_of(s);
    const auto by = plain_reach(s);
    for (int i = 0; i < game::kSnakes; ++i) {
      empty += s.length(i) == 0;
      for (int t = 0; t <= game::kHorizon; ++t) {
        CAPTURE(game::picture(s), i, t);
        REQUIRE(cells_of(reach.by[i][t]) == by[static_cast<std::size_t>(i)][static_cast<std::size_t>(t)]);
      }
      game::MoveFeatures move_features[4];
      game::look_ahead(s, reach, i, move_features);
      for (int d = 0; d < 4; ++d) {
        CAPTURE(game::picture(s), i, d);
        const game::MoveFeatures plain = plain_outlook(s, by, i, d);
        REQUIRE(move_features[d].room == plain.room);
        REQUIRE(move_features[d].territory == plain.territory);
        REQUIRE(move_features[d].beans == plain.beans);
        REQUIRE(move_features[d].bean_distance == plain.bean_distance);
        REQUIRE(move_features[d].own_bean_distance == plain.own_bean_distance);
        REQUIRE(move_features[d].foe_may_enter == plain.foe_may_enter);
        REQUIRE(move_features[d].mate_may_enter == plain.mate_may_enter);
      }
    }
  });
  CHECK(boards > 50);
}

TEST_CASE("the view is the window and what each move leads to", "[property]") {
  constexpr int kView = game::obs_size(game::ObsKind::kView),
                kWindow = game::obs_size(game::ObsKind::kWindow);
  on_boards(4, 31, [&](const game::State& s) {
    const game::Reach reach = game::reach_of(s);
    for (int team = 0; team < 2; ++team) {
      std::vector<float> view(3 * kView, -99.0F), window(3 * kWindow, -99.0F);
      game::observe(game::ObsKind::kView, s, team, view.data());
      game::observe(game::ObsKind::kWindow, s, team, window.data());
      for (int i = 0; i < 3; ++i) {
        for (int f = 0; f < kWindow; ++f)
          REQUIRE(view[static_cast<std::size_t>(i * kView + f)] ==
                  window[static_cast<std::size_t>(i * kWindow + f)]);
        const int snake = 3 * team + i;
        game::MoveFeatures move_features[4];
        game::look_ahead(s, reach, snake, move_features);
        const unsigned open = game::open_moves(s, snake);
        for (int d = 0; d < 4; ++d) {
          const float* at = view.data() + i * kView + kWindow + game::view::kMoveFeatures * d;
          const game::MoveFeatures& o = move_features[d];
          CHECK(at[0] == static_cast<float>(open >> d & 1U));
          CHECK(at[1] == Approx(o.room / 100.0));
          CHECK(at[2] == Approx(o.territory / 50.0));
          CHECK(at[3] == Approx(o.beans / 5.0));
          CHECK(at[4] == Approx((11 - o.bean_distance) / 11.0));
          CHECK(at[5] == Approx((11 - o.own_bean_distance) / 11.0));
          CHECK(at[6] == static_cast<float>(o.foe_may_enter));
          CHECK(at[7] == static_cast<float>(o.mate_may_enter));
        }
      }
    }
  });
}

TEST_CASE("the territory heuristic plays both sides alike, makes no fatal move where there is another",
          "[property]") {
  on_boards(6, 7, [](const game::State& s) {
    if (s.done()) return;
    game::Actions a{}, b{};
    game::act(game::Opponent::kTerritory, s, 1, a, 0, 0);
    game::act(game::Opponent::kTerritory, game::with_sides_swapped(s), 0, b, 0, 0);
    Cells chosen;
    for (int i = 0; i < 3; ++i) {
      REQUIRE(a.of[3 + i] == b.of[i]);
      const unsigned safe = ~game::fatal_moves(s, 3 + i) & 15U;
      bool free = false;  // of mates' moves
      for (int d = 0; d < 4; ++d)
        free = free || ((safe >> d & 1U) != 0 && chosen.count(game::follow(s.head(3 + i), d)) == 0);
      if (free) REQUIRE((safe >> a.of[3 + i] & 1U) == 1U);
      chosen.insert(game::follow(s.head(3 + i), a.of[3 + i]));
    }
  });
}

TEST_CASE("the territory heuristic beats every other scripted opponent in two games of three", "[unit]") {
  for (int level = 0; level <= static_cast<int>(game::Opponent::kEvasion); ++level) {
    int won = 0;
    for (int g = 0; g < 120; ++g) {
      game::State s;
      game::PhiloxChance chance(3, static_cast<std::uint64_t>(g));
      game::reset(s, chance);
      const int side = g % 2;
      while (!s.done()) {
        game::Actions actions{};
        game::act(game::Opponent::kTerritory, s, side, actions, 3, static_cast<std::uint64_t>(g));
        game::act(static_cast<game::Opponent>(level), s, 1 - side, actions, 3, static_cast<std::uint64_t>(g));
        game::PhiloxChance step_chance(3, static_cast<std::uint64_t>(g));
        game::step(s, actions, step_chance);
      }
      won += s.team_return(side) > s.team_return(1 - side);
    }
    CAPTURE(level);
    CHECK(won > 80);
  }
}
