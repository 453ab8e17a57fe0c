#include "snake_ddp/game/game.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace snake_ddp::game {

namespace {

/// The link that leads from `tail_side` to `head_side`; -1 where none does.
int link_between(int tail_side, int head_side) {
  for (int link = 0; link < kLinks; ++link)
    if (follow(tail_side, link) == head_side) return link;
  return -1;
}

std::uint8_t byte(int value) { return static_cast<std::uint8_t>(value); }

void check_cell(int cell, const char* of) {
  SD_CHECK(cell >= 0 && cell < kCells,
           fmt::format("{}: cell {} is not on the board (0..{})", of, cell, kCells - 1));
}

}  // namespace

State make_state(const Position& position) {
  State s{};
  bool empty = false;
  for (int i = 0; i < kSnakes; ++i) {
    const std::vector<int>& body = position.snakes[i];
    const int direction = position.directions[i];
    SD_CHECK(direction >= 0 && direction < 4,
             fmt::format("snake {}: direction {} is not 0..3", i, direction));
    s.directions[i] = byte(direction);
    empty = empty || body.empty();
    if (body.empty()) continue;
    SD_CHECK(body.size() >= kStartLength && body.size() <= kCells,
             fmt::format("snake {} has {} cells, not {} to {}", i, body.size(), kStartLength, kCells));
    for (std::size_t k = 0; k < body.size(); ++k) {
      check_cell(body[k], "snake");
      SD_CHECK(s.cells[body[k]] == 0, fmt::format("snake {}: cell {} is taken twice", i, body[k]));
      const int link = k == 0 ? 0 : link_between(body[k], body[k - 1]);
      SD_CHECK(link >= 0, fmt::format("snake {}: cell {} does not touch cell {}", i, body[k], body[k - 1]));
      s.cells[body[k]] = rules::linked(i, link);
    }
    s.heads[i] = byte(body.front());
    s.tails[i] = byte(body.back());
    s.lengths[i] = byte(static_cast<int>(body.size()));
  }
  SD_CHECK(!empty || position.done, "a snake is empty on a board that is not done");
  SD_CHECK(position.beans.size() <= kBeans,
           fmt::format("{} beans, at most {}", position.beans.size(), kBeans));
  for (const int cell : position.beans) {
    check_cell(cell, "bean");
    SD_CHECK(s.cells[cell] == 0, fmt::format("bean: cell {} is taken", cell));
    s.cells[cell] = 1;
    s.beans[s.n_beans++] = byte(cell);
  }
  SD_CHECK(position.step >= 1 && position.step <= kMaxSteps + 1,
           fmt::format("step {} is not 1..201", position.step));
  s.steps = static_cast<std::uint16_t>(position.step);
  s.returns[0] = position.returns[0];
  s.returns[1] = position.returns[1];
  s.is_done = position.done;
  return s;
}

Position position_of(const State& state) {
  Position p;
  for (int i = 0; i < kSnakes; ++i) {
    std::uint8_t cells[kCells];
    const int n = state.body(i, cells);
    p.snakes[i].assign(cells, cells + n);
    p.directions[i] = state.direction(i);
  }
  p.beans.assign(state.beans, state.beans + state.n_beans);
  p.step = state.step();
  p.returns = {state.team_return(0), state.team_return(1)};
  p.done = state.done();
  return p;
}

std::uint64_t hash(const State& state) {
  std::uint64_t h =
      0xcbf29ce484222325ULL;  // FNV-1a over 64-bit words, with a shift so that high bits come down
  const auto mix = [&h](std::int64_t value) {
    h = (h ^ static_cast<std::uint64_t>(value)) * 0x100000001b3ULL;
    h ^= h >> 29;
  };
  for (int i = 0; i < kSnakes; ++i) {
    std::uint8_t cells[kCells];
    const int n = state.body(i, cells);
    mix(n);
    for (int k = 0; k < n; ++k) mix(cells[k]);
    mix(state.direction(i));
  }
  mix(state.bean_count());
  for (int b = 0; b < state.bean_count(); ++b) mix(state.bean(b));
  mix(state.step());
  mix(state.team_return(0));
  mix(state.team_return(1));
  mix(state.done() ? 1 : 0);
  return h;
}

void check_consistency(const State& state) {
  const auto fail = [&state](const std::string& what) {
    std::string board;  // a body that does not hang together cannot be drawn by `picture`
    for (int c = 0; c < kCells; ++c) {
      board += fmt::format("{:2x} ", state.cells[c]);
      if (column_of(c) == kCols - 1) board += '\n';
    }
    throw base::Bug(fmt::format("inconsistent board at step {}: {}\ncells (code | link << 3):\n{}",
                                state.step(), what, board));
  };
  bool seen[kCells] = {};
  int taken = 0;
  for (int i = 0; i < kSnakes; ++i) {
    const int length = state.length(i);
    if (state.direction(i) > 3) fail(fmt::format("snake {} has direction {}", i, state.direction(i)));
    if (length == 0) {
      if (!state.done()) fail(fmt::format("snake {} is empty on a board that is not done", i));
      if (state.heads[i] != 0 || state.tails[i] != 0)
        fail(fmt::format("snake {} is empty but not at cell 0", i));
      continue;
    }
    if (length < kStartLength) fail(fmt::format("snake {} has length {}", i, length));
    int c = state.tails[i];
    for (int left = length; left > 0; --left) {
      if (c >= kCells || seen[c]) fail(fmt::format("snake {}: cell {} is taken twice or outside", i, c));
      if (state.code(c) != i + 2) fail(fmt::format("snake {}: cell {} has code {}", i, c, state.code(c)));
      seen[c] = true;
      ++taken;
      const int link = state.cells[c] >> 3;
      if (link >= kLinks) fail(fmt::format("snake {}: cell {} has link {}", i, c, link));
      if (left == 1 && c != state.head(i))
        fail(fmt::format("snake {}: ends at {}, head {}", i, c, state.head(i)));
      if (left == 1 && link != 0) fail(fmt::format("snake {}: its head has link {}", i, link));
      c = follow(c, link);
    }
  }
  const int n_beans = state.bean_count();
  if (n_beans > kBeans) fail(fmt::format("{} beans", n_beans));
  for (int b = 0; b < kBeans; ++b) {
    const int c = state.beans[b];
    if (b >= n_beans) {
      if (c != 0) fail(fmt::format("bean list: {} behind its end", c));
      continue;
    }
    if (c >= kCells || seen[c] || state.cells[c] != 1) fail(fmt::format("bean {} on cell {}", b, c));
    seen[c] = true;
    ++taken;
  }
  for (int c = 0; c < kCells; ++c)
    if (!seen[c] && state.cells[c] != 0)
      fail(fmt::format("cell {} has code {} but nobody is there", c, state.code(c)));
  if (state.free_cells() != kCells - taken) fail("the number of free cells is wrong");
  if (n_beans < kBeans && state.free_cells() > 0) fail("beans are missing though there is room");
  if (state.step() < 1 || state.step() > kMaxSteps + 1) fail("the step is not 1..201");
  if (!state.done() && (state.step() > kMaxSteps || kBeans + state.segments() > kCells))
    fail("should be done");
}

}  // namespace snake_ddp::game
