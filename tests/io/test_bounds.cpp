// The bounds of features, over recorded games, random ones, and boards as full as they can be.
#include <cmath>
#include <vector>

#include "game/boards.hpp"
#include "io/game_log.hpp"
#include "snake_ddp/game/bounds.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/hidden_view.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/position.hpp"
#include "test_data.hpp"

using namespace snake_ddp;
using game::ObsKind;

namespace {

constexpr ObsKind kKinds[] = {ObsKind::k26, ObsKind::k30, ObsKind::kWindow, ObsKind::kView, ObsKind::kAhead};

// The range of what was seen, by feature of a kind.
class Seen {
 public:
  explicit Seen(ObsKind kind)
      : kind_(kind),
        bounds_(game::feature_bounds(kind)),
        low_(bounds_.high.size(), INFINITY),
        high_(low_.size(), -INFINITY) {}

  void add(const game::State& s) {
    std::vector<float> row(game::kTeamSize * low_.size());
    for (int team = 0; team < 2; ++team) {
      game::observe(kind_, s, team, row.data());
      check(row, s);
      if (kind_ != ObsKind::kWindow) continue;
      for (int i = 0; i < game::kTeamSize; ++i) game::hide_far(game::kLeastRadius, row.data() + i * 277);
      check(row, s);
    }
  }

  // How many features were seen at their lower and at their upper bound.
  [[nodiscard]] int at_low() const { return count(low_, bounds_.low); }
  [[nodiscard]] int at_high() const { return count(high_, bounds_.high); }

 private:
  void check(const std::vector<float>& row, const game::State& s) {
    // Pointers: in sanitized builds each access to a vector is a call, and there are hundreds of millions.
    const float *value = row.data(), *least = bounds_.low.data(), *most = bounds_.high.data();
    float *low = low_.data(), *high = high_.data();
    const std::size_t size = low_.size();
    for (std::size_t i = 0; i < game::kTeamSize; ++i) {
      for (std::size_t f = 0; f < size; ++f, ++value) {
        if (!(*value >= least[f] && *value <= most[f])) {
          CAPTURE(game::picture(s), f, *value, least[f], most[f]);
          FAIL("a feature is out of its bounds");
        }
        if (*value < low[f]) low[f] = *value;
        if (*value > high[f]) high[f] = *value;
      }
    }
  }
  static int count(const std::vector<float>& a, const std::vector<float>& b) {
    int n = 0;
    for (std::size_t f = 0; f < a.size(); ++f) n += a[f] == b[f];
    return n;
  }

  ObsKind kind_;
  game::Bounds bounds_;
  std::vector<float> low_, high_;
};

// A snake that fills `cells` cells, row by row to and fro from `first` on, head first.
std::vector<int> winding(int first, int cells) {
  std::vector<int> body;
  for (int c = first; c < first + cells; ++c) {
    const int row = game::row_of(c), column = game::column_of(c);
    body.push_back(row * game::kCols + (row % 2 == 0 ? column : game::kCols - 1 - column));
  }
  return body;
}

// Boards at the ends of games: one snake everywhere; six on a full board; one long snake and five short ones. `shift` moves
// all cells.
std::vector<game::State> full_boards(int shift) {
  std::vector<game::State> boards;
  const auto add = [&](int snake, int length, int others) {
    game::Position p;
    p.done = true;
    p.step = game::kMaxSteps + 1;
    p.directions.fill(game::kLeft);
    p.snakes[static_cast<std::size_t>(snake)] = winding(0, length);
    int next = length;
    for (int i = 0; i < others; ++i, next += 3)
      p.snakes[static_cast<std::size_t>((snake + 1 + i) % game::kSnakes)] = winding(next, 3);
    for (auto& body : p.snakes)
      for (int& cell : body) cell = (cell + shift) % game::kCells;
    for (int i = 0; i < game::kSnakes; ++i) {
      const auto length_of = static_cast<int>(p.snakes[static_cast<std::size_t>(i)].size());
      p.returns[static_cast<std::size_t>(i / game::kTeamSize)] += std::max(0, length_of - game::kStartLength);
    }
    boards.push_back(game::make_state(p));
  };
  for (int snake = 0; snake < game::kSnakes; ++snake) {
    add(snake, game::kCells, 0);
    add(snake, game::kCells - 15, 5);
    add(snake, 3, 5);
  }
  return boards;
}

}  // namespace

TEST_CASE("features are within their bounds, and most reach them", "[property]") {
  for (const ObsKind kind : kKinds) {
    Seen seen(kind);
    io::read_games(test_data("games.jsonl.gz"), [&](const io::RecordedGame& recorded) {
      game::Position p;
      for (const io::RecordedStep& step : recorded.steps) {
        p.snakes = step.after.snakes;
        p.directions = step.after.directions;
        p.beans = step.after.beans;
        ++p.step;
        p.done = step.done.value_or(false);
        for (std::size_t i = 0; i < game::kSnakes; ++i) p.returns[i / game::kTeamSize] += step.reward[i];
        seen.add(game::make_state(p));
      }
    });
    for (std::uint64_t g = 0; g < 60 / boards::kSlowdown; ++g) {
      game::State s;
      game::PhiloxChance start(g, 5);
      game::reset(s, start);
      while (!s.done()) {
        seen.add(s);
        game::Actions actions{};
        game::act(static_cast<game::Opponent>(g % game::kOpponents.size()), s, 0, actions, g, 1);
        game::act(game::Opponent::kLevel0, s, 1, actions, g, 1);
        game::PhiloxChance chance(g, 5);
        game::step(s, actions, chance);
        for (int team = 0; team < 2; ++team) {  // what bounds the lead
          int above = 0;
          for (int i = team * game::kTeamSize; i < (team + 1) * game::kTeamSize; ++i)
            above += std::max(0, s.length(i) - game::kStartLength);
          REQUIRE(s.team_return(team) == above);
        }
      }
      seen.add(s);
    }
    for (int row = 0; row < game::kRows; row += 2)  // the winding continues over the edge
      for (const game::State& s : full_boards(row * game::kCols)) seen.add(s);
    CAPTURE(static_cast<int>(kind), seen.at_low(), seen.at_high());
    const int size = game::obs_size(kind);
    CHECK(seen.at_low() >= size - 6);
    CHECK(seen.at_high() >= size * 3 / 4);  // only a head is as old as its snake is long
  }
}
