// Boards and chance for tests.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/random.hpp"
#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/position.hpp"

namespace boards {

using namespace snake_ddp;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSlowdown = 10;
#else
inline constexpr int kSlowdown = 1;
#endif

/// Chance with the outcomes that the test listed. A bean that is not listed fails the test.
struct Scripted {
  std::uint8_t turns[game::kSnakes] = {0, 0, 0, 0, 0, 0};
  std::vector<int> beans{};
  std::vector<game::Start> starts{};
  std::size_t dealt = 0, started = 0;

  void begin_reset() {}
  void begin_step(const game::State&) {}
  game::Start start(const game::State&, int) {
    REQUIRE(started < starts.size());
    return starts[started++];
  }
  std::uint8_t turn(int snake, std::uint8_t) const { return turns[snake]; }
  int bean(const game::State&) {
    REQUIRE(dealt < beans.size());
    return beans[dealt++];
  }
};

/// Five rows drawn by the test; below, in rows 5 to 9, the snakes among B..F that it did not draw, heading
/// right from column 2, and as many beans at the right as are missing from five.
inline game::State top(const std::string& rows) {
  std::string text = rows;
  if (text.back() != '\n') text += '\n';
  auto beans = 5 - std::count(text.begin(), text.end(), 'o');
  for (char name = 'B'; name <= 'F'; ++name) {
    std::string row = rows.find(name) == std::string::npos ? std::string(">>") + name : "...";
    row += std::string(16, '.') + (beans > 0 ? 'o' : '.');
    --beans;
    text += row + '\n';
  }
  return game::drawn(text);
}

/// A (length 6) and D (length 3) may both enter the cell between their heads.
inline game::State contested() {
  return top(
      ".>>>>>A.D<<.........\n"
      "....................\n"
      "....................\n"
      "....................\n"
      "....................\n");
}

/// All snakes to the right except those named.
inline game::Actions right() { return {{3, 3, 3, 3, 3, 3}}; }

/// A board with about `wanted` segments on it: six bodies grown at random, then beans. For cases that play
/// rarely meets: little room, snakes of any shape. Not done.
inline game::State crowded(core::RandomStream& random, int wanted) {
  for (;;) {
    game::Position p;
    std::vector<char> taken(game::kCells, 0);
    bool good = true;
    for (int i = 0; i < game::kSnakes && good; ++i) {
      // Tail first, so that the head is where the walk ends.
      std::vector<int> body;
      for (int tries = 0; tries < 200 && body.size() < 3; ++tries) {
        for (const int c : body) taken[static_cast<std::size_t>(c)] = 0;
        body.assign(1, static_cast<int>(random.below(game::kCells)));
        if (taken[static_cast<std::size_t>(body[0])] != 0) {
          body.clear();
          continue;
        }
        taken[static_cast<std::size_t>(body[0])] = 1;
        const auto length =
            static_cast<std::size_t>(3 + random.below(static_cast<std::uint32_t>(wanted / 3 - 4)));
        while (body.size() < length) {
          std::vector<int> ways;
          for (int d = 0; d < 4; ++d) {
            const int next = game::follow(body.back(), d);
            if (taken[static_cast<std::size_t>(next)] == 0) ways.push_back(next);
          }
          if (ways.empty()) break;
          body.push_back(ways[random.below(static_cast<std::uint32_t>(ways.size()))]);
          taken[static_cast<std::size_t>(body.back())] = 1;
        }
      }
      good = body.size() >= 3;
      if (!good) break;
      for (int d = 0; d < 4; ++d)
        if (game::follow(body[body.size() - 2], d) == body.back())
          p.directions[static_cast<std::size_t>(i)] = d;
      p.snakes[static_cast<std::size_t>(i)].assign(body.rbegin(), body.rend());
    }
    if (!good) continue;
    std::vector<int> free;
    for (int c = 0; c < game::kCells; ++c)
      if (taken[static_cast<std::size_t>(c)] == 0) free.push_back(c);
    if (free.size() < game::kBeans) continue;
    for (int b = 0; b < game::kBeans; ++b) {
      const auto at = random.below(static_cast<std::uint32_t>(free.size()));
      p.beans.push_back(free[at]);
      free.erase(free.begin() + at);
    }
    p.step = 1 + static_cast<int>(random.below(game::kMaxSteps));
    for (int i = 0; i < game::kSnakes; ++i)
      p.returns[static_cast<std::size_t>(i / 3)] +=
          static_cast<int>(p.snakes[static_cast<std::size_t>(i)].size()) - 3;
    return game::make_state(p);
  }
}

/// A board without room: six bodies and five beans, in any order, on one closed path over all but a few of its cells.
/// With the actions that follow the path.
struct Packed {
  game::State state;
  game::Actions onward;
};

inline Packed packed(core::RandomStream& random) {
  std::vector<int> way;  // column by column down and up; the torus closes it
  for (int c = 0; c < game::kCols; ++c)
    for (int r = 0; r < game::kRows; ++r)
      way.push_back((c % 2 == 0 ? r : game::kRows - 1 - r) * game::kCols + c);
  std::rotate(way.begin(), way.begin() + random.below(game::kCells), way.end());
  if (random.below(2) == 0) std::reverse(way.begin(), way.end());

  // Lengths: many snakes of three, the longest takes the rest but for up to two cells.
  int lengths[game::kSnakes], left = game::kCells - game::kBeans - static_cast<int>(random.below(3));
  for (int i = 0; i < game::kSnakes - 1; ++i) {
    lengths[i] = random.below(3) != 0 ? 3 : 3 + static_cast<int>(random.below(12));
    left -= lengths[i];
  }
  lengths[game::kSnakes - 1] = left;
  const auto shift = static_cast<int>(random.below(game::kSnakes));
  std::vector<int> order;  // snakes, and -1 for a bean
  for (int i = 0; i < game::kSnakes; ++i) order.push_back(i);
  order.resize(game::kSnakes + game::kBeans, -1);
  for (std::size_t k = order.size(); k > 1; --k)
    std::swap(order[k - 1], order[random.below(static_cast<std::uint32_t>(k))]);

  game::Position p;
  game::Actions onward{};
  std::size_t at = 0;
  const auto direction = [](int from, int to) {
    for (int d = 0; d < 4; ++d)
      if (game::follow(from, d) == to) return d;
    throw core::Bug("the way has a jump");
  };
  for (const int what : order) {
    if (what < 0) {
      p.beans.push_back(way[at++]);
      continue;
    }
    const auto i = static_cast<std::size_t>((what + shift) % game::kSnakes);
    const auto length = static_cast<std::size_t>(lengths[what]);
    p.snakes[i].assign(way.begin() + static_cast<std::ptrdiff_t>(at),
                       way.begin() + static_cast<std::ptrdiff_t>(at + length));
    p.directions[i] = direction(p.snakes[i][1], p.snakes[i][0]);
    onward.of[i] =
        static_cast<std::uint8_t>(direction(p.snakes[i][0], way[(at + way.size() - 1) % way.size()]));
    at += length;
  }
  p.step = 1 + static_cast<int>(random.below(game::kMaxSteps));
  return {game::make_state(p), onward};
}

}  // namespace boards
