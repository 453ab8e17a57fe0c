// The game, its chance and the scripted opponents once more: a slow, plain transcription of the rules, the
// oracle for the fast ones.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "snake_ddp/core/random.hpp"
#include "snake_ddp/game/position.hpp"

namespace plain {

using Cell = std::pair<int, int>;  // row, column

inline Cell next_of(Cell c, int direction) {
  static constexpr int kRow[4] = {-1, 1, 0, 0}, kColumn[4] = {0, 0, -1, 1};
  return {(c.first + kRow[direction] + 10) % 10, (c.second + kColumn[direction] + 20) % 20};
}

/// The draws that PhiloxChance documents: word 0 of the step's first block for the turns, then one word after
/// the other.
struct Chance {
  std::uint64_t seed, stream;
  snake_ddp::core::Purpose purpose = snake_ddp::core::Purpose::kReset;
  std::uint32_t step = 0;
  std::uint32_t words = 0;

  std::uint32_t word(std::uint32_t k) const {
    return snake_ddp::core::random_block(seed, stream, step + (k / 4 << 16), purpose).word[k % 4];
  }
  int turn(int snake, int forbidden) const {
    std::uint64_t fraction = word(0);
    for (int i = 0; i < snake; ++i) fraction = fraction * 3 % (1ULL << 32);
    std::vector<int> allowed;
    for (int d = 0; d < 4; ++d)
      if (d != forbidden) allowed.push_back(d);
    return allowed[fraction * 3 >> 32];
  }
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(word(words++)) * n) >> 32);
  }
};

struct Game {
  std::array<std::deque<Cell>, 6> snakes;
  std::array<int, 6> directions{};
  std::vector<Cell> beans;
  int step = 1;
  std::array<int, 2> returns{};
  bool done = false;

  std::array<int, 6> reward{}, hit{};  // of the last step

  std::array<std::array<int, 20>, 10> codes() const {
    std::array<std::array<int, 20>, 10> board{};
    for (const Cell& b : beans) board[b.first][b.second] = 1;
    for (int i = 0; i < 6; ++i)
      for (const Cell& c : snakes[i]) board[c.first][c.second] = i + 2;
    return board;
  }
  std::vector<Cell> free_cells() const {
    const auto board = codes();
    std::vector<Cell> cells;
    for (int r = 0; r < 10; ++r)
      for (int c = 0; c < 20; ++c)
        if (board[r][c] == 0) cells.emplace_back(r, c);
    return cells;
  }

  void reset(Chance chance) {
    *this = Game{};
    chance.purpose = snake_ddp::core::Purpose::kReset;
    chance.step = 0;
    for (int i = 0; i < 6; ++i) {
      for (bool fits = false; !fits;) {
        const std::uint32_t draw = chance.below(800);
        const int cell = static_cast<int>(draw) / 4;
        directions[i] = static_cast<int>(draw) % 4;
        std::deque<Cell> body{{cell / 20, cell % 20}};
        body.push_front(next_of(body.front(), directions[i]));
        body.push_front(next_of(body.front(), directions[i]));
        const auto board = codes();
        fits = std::all_of(body.begin(), body.end(), [&](Cell c) { return board[c.first][c.second] == 0; });
        if (fits) snakes[i] = body;
      }
    }
    deal(chance);
  }

  void deal(Chance& chance) {
    while (beans.size() < 5 && !free_cells().empty()) {
      const std::vector<Cell> cells = free_cells();
      beans.push_back(cells[chance.below(static_cast<std::uint32_t>(cells.size()))]);
    }
  }

  /// The search of step 4, marks and all; false where the board has no room.
  bool come_back(int i) {
    const auto board = codes();
    std::set<Cell> marked;
    for (int r = 0; r < 10; ++r) {
      for (int c = 0; c < 20; ++c) {
        if (board[r][c] != 0 || marked.count({r, c}) > 0) continue;
        std::vector<Cell> got;
        std::queue<Cell> queue({{r, c}});
        marked.insert({r, c});
        while (!queue.empty() && got.size() < 3) {
          const Cell at = queue.front();
          queue.pop();
          got.push_back(at);
          for (const auto& [dr, dc] : {Cell{0, 1}, Cell{1, 0}, Cell{-1, 0}, Cell{0, -1}}) {
            const Cell n{(at.first + dr + 10) % 10, (at.second + dc + 20) % 20};
            if (board[n.first][n.second] == 0 && marked.insert(n).second) queue.push(n);
          }
        }
        if (got.size() < 3) continue;
        if (got[0] == Cell{got[1].first, got[2].second} || got[0] == Cell{got[2].first, got[1].second})
          std::swap(got[0], got[1]);
        snakes[i].assign(got.begin(), got.end());
        if (got[0].first == got[1].first)
          directions[i] = got[0].second > got[1].second ? 3 : 2;
        else
          directions[i] = got[0].first > got[1].first ? 1 : 0;
        return true;
      }
    }
    return false;
  }

  void play(const std::array<int, 6>& actions, Chance chance) {
    chance.purpose = snake_ddp::core::Purpose::kStep;
    chance.step = static_cast<std::uint32_t>(step);
    chance.words = 1;
    std::array<bool, 6> ate{};
    reward = hit = {};
    for (int i = 0; i < 6; ++i) {
      int direction = actions[i];
      const int opposite = std::array{1, 0, 3, 2}[directions[i]];
      if (direction == opposite) direction = chance.turn(i, opposite);
      directions[i] = direction;
      snakes[i].push_front(next_of(snakes[i].front(), direction));
      const auto bean = std::find(beans.begin(), beans.end(), snakes[i].front());
      if (bean != beans.end()) {
        beans.erase(bean);
        ate[i] = true;
        reward[i] = 1;
      } else {
        snakes[i].pop_back();
      }
    }
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 6; ++j)
        for (std::size_t k = 0; k < snakes[j].size(); ++k)
          if ((i != j || k != 0) && snakes[i].front() == snakes[j][k]) hit[i] = 1;
    for (int i = 0; i < 6; ++i) {
      if (hit[i] == 0) continue;
      reward[i] = 3 - static_cast<int>(snakes[i].size()) + (ate[i] ? 1 : 0);
    }
    for (int i = 0; i < 6; ++i)
      if (hit[i] != 0) snakes[i].clear();
    for (int i = 0; i < 6; ++i)
      if (hit[i] != 0 && !come_back(i)) done = true;
    deal(chance);
    ++step;
    std::size_t segments = 0;
    for (const auto& snake : snakes) segments += snake.size();
    if (step > 200 || 5 + segments > 200) done = true;
    for (int i = 0; i < 6; ++i) returns[i / 3] += reward[i];
  }
};

inline snake_ddp::game::Position position_of(const Game& game) {
  snake_ddp::game::Position p;
  const auto index = [](Cell c) { return c.first * 20 + c.second; };
  for (int i = 0; i < 6; ++i)
    for (const Cell& c : game.snakes[i]) p.snakes[i].push_back(index(c));
  p.directions = game.directions;
  for (const Cell& b : game.beans) p.beans.push_back(index(b));
  p.step = game.step;
  p.returns = game.returns;
  p.done = game.done;
  return p;
}

inline Game game_of(const snake_ddp::game::Position& p) {
  Game game;
  for (int i = 0; i < 6; ++i)
    for (const int c : p.snakes[i]) game.snakes[i].emplace_back(c / 20, c % 20);
  game.directions = p.directions;
  for (const int c : p.beans) game.beans.emplace_back(c / 20, c % 20);
  game.step = p.step;
  game.returns = p.returns;
  game.done = p.done;
  return game;
}

// ---- The scripted opponents, with the reference's formulas in full.

inline double distance(Cell a, Cell b) {
  return std::sqrt(static_cast<double>((a.first - b.first) * (a.first - b.first) +
                                       (a.second - b.second) * (a.second - b.second)));
}

inline Cell nearest(const std::vector<Cell>& beans, Cell head) {
  return *std::min_element(beans.begin(), beans.end(),
                           [&](Cell a, Cell b) { return distance(a, head) < distance(b, head); });
}

/// `level` 1..4, or 5 for evasion. Needs beans.
inline std::array<int, 3> opponents(const Game& game, int team, int level) {
  const auto board = game.codes();
  const auto blocked = [&](Cell c) { return board[c.first][c.second] > 1; };
  std::vector<Cell> beans = game.beans;
  std::array<int, 3> actions{};
  for (int k = 0; k < 3; ++k) {
    const auto& snake = game.snakes[3 * team + k];
    const Cell head = snake.front(), target = nearest(beans, head);
    if (level == 2) beans.erase(std::find(beans.begin(), beans.end(), target));
    int blocked_neighbours = 0;
    for (int d = 0; d < 4; ++d) blocked_neighbours += blocked(next_of(head, d)) ? 1 : 0;
    std::vector<int> candidates{0, 1, 2, 3};
    if (level == 5) {
      struct Walk {
        Cell at;
        int depth, first;
      };
      std::vector<int> found;
      std::set<std::pair<Cell, int>> visited;
      std::queue<Walk> queue({Walk{head, 0, -1}});
      while (!queue.empty()) {
        const Walk walk = queue.front();
        queue.pop();
        if (walk.depth == 2) {
          if (std::find(found.begin(), found.end(), walk.first) == found.end()) found.push_back(walk.first);
          continue;
        }
        for (int d = 0; d < 4; ++d) {
          const Cell n = next_of(walk.at, d);
          if (blocked(n) || !visited.insert({n, walk.depth + 1}).second) continue;
          queue.push({n, walk.depth + 1, walk.depth == 0 ? d : walk.first});
        }
      }
      if (!found.empty()) candidates = found;
    }
    double best = std::numeric_limits<double>::infinity();
    actions[k] = candidates.front();
    for (const int d : candidates) {
      const Cell n = next_of(head, d);
      double score = distance(n, target);
      if (level == 2 && blocked(n)) score = std::numeric_limits<double>::infinity();
      if (level == 3) score += 0.5 * ((blocked(n) ? 10 : 0) + 2 * blocked_neighbours);
      if (level == 4) {
        const double a = std::max(0.3, 1.0 - static_cast<double>(snake.size()) / 20.0);
        score = blocked(n) ? 1000.0 : score * a + 5.0 * blocked_neighbours * (1.0 - a);
      }
      if (score < best) {
        best = score;
        actions[k] = d;
      }
    }
  }
  return actions;
}

}  // namespace plain
