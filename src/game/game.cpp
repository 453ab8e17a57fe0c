#include "snake_ddp/game/game.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/game/rules.hpp"

namespace snake_ddp::game {

namespace {

/// The link that leads from `tail_side` to `head_side`; -1 where none does.
int link_between(int tail_side, int head_side) {
  for (int link = 0; link < kLinks; ++link)
    if (follow(tail_side, link) == head_side) return link;
  return -1;
}

std::uint8_t byte(int value) { return static_cast<std::uint8_t>(value); }

bool on_board(int cell) { return cell >= 0 && cell < kCells; }

/// Builds `s`. Returns what is wrong with the position; empty if nothing.
std::string build(const Position& position, State& s) {
  s = State{};
  for (int i = 0; i < kSnakes; ++i) {
    const std::vector<int>& body = position.snakes[i];
    const int direction = position.directions[i];
    if (direction < 0 || direction > 3)
      return fmt::format("snake {} has direction {}, not 0..3", i, direction);
    s.directions[i] = byte(direction);
    if (body.empty() && position.done) continue;
    if (body.size() < kStartLength || body.size() > kCells)
      return fmt::format("snake {} has {}, not {} to {}", i, core::counted(body.size(), "cell"), kStartLength,
                         kCells);
    for (std::size_t k = 0; k < body.size(); ++k) {
      if (!on_board(body[k])) return fmt::format("snake {}: cell {} is not on the board", i, body[k]);
      if (s.cells[body[k]] != 0) return fmt::format("snake {}: cell {} is taken twice", i, body[k]);
      const int link = k == 0 ? 0 : link_between(body[k], body[k - 1]);
      if (link < 0) return fmt::format("snake {}: cell {} does not touch cell {}", i, body[k], body[k - 1]);
      s.cells[body[k]] = rules::linked(i, link);
    }
    s.heads[i] = byte(body.front());
    s.tails[i] = byte(body.back());
    s.lengths[i] = byte(static_cast<int>(body.size()));
  }
  if (position.beans.size() > kBeans)
    return fmt::format("{}, at most {}", core::counted(position.beans.size(), "bean"), kBeans);
  for (const int cell : position.beans) {
    if (!on_board(cell)) return fmt::format("bean: cell {} is not on the board", cell);
    if (s.cells[cell] != 0) return fmt::format("bean: cell {} is taken", cell);
    s.cells[cell] = 1;
    s.beans[s.n_beans++] = byte(cell);
  }
  if (position.step < 1 || position.step > kMaxSteps + 1)
    return fmt::format("step {} is not 1..201", position.step);
  s.steps = static_cast<std::uint16_t>(position.step);
  s.returns[0] = position.returns[0];
  s.returns[1] = position.returns[1];
  s.is_done = position.done;
  return {};
}

/// What cells, bodies, beans and counters contradict; empty if nothing.
std::string contradiction_in(const State& state) {
  bool seen[kCells] = {};
  int taken = 0;
  for (int i = 0; i < kSnakes; ++i) {
    const int length = state.length(i);
    if (state.direction(i) > 3) return fmt::format("snake {} has direction {}", i, state.direction(i));
    if (length == 0) {
      if (!state.done()) return fmt::format("snake {} is empty on a board that is not done", i);
      if (state.heads[i] != 0 || state.tails[i] != 0)
        return fmt::format("snake {} is empty but not at cell 0", i);
      continue;
    }
    if (length < kStartLength) return fmt::format("snake {} has length {}", i, length);
    int c = state.tails[i];
    for (int left = length; left > 0; --left) {
      if (c >= kCells || seen[c]) return fmt::format("snake {}: cell {} is taken twice or outside", i, c);
      if (state.code(c) != i + 2) return fmt::format("snake {}: cell {} has code {}", i, c, state.code(c));
      seen[c] = true;
      ++taken;
      const int link = state.cells[c] >> 3;
      if (link >= kLinks) return fmt::format("snake {}: cell {} has link {}", i, c, link);
      if (left == 1 && c != state.head(i))
        return fmt::format("snake {}: ends at {}, head {}", i, c, state.head(i));
      if (left == 1 && link != 0) return fmt::format("snake {}: its head has link {}", i, link);
      c = follow(c, link);
    }
  }
  const int n_beans = state.bean_count();
  if (n_beans > kBeans) return core::counted(n_beans, "bean");
  for (int b = 0; b < kBeans; ++b) {
    const int c = state.beans[b];
    if (b >= n_beans) {
      if (c != 0) return fmt::format("bean list: {} behind its end", c);
      continue;
    }
    if (c >= kCells || seen[c] || state.cells[c] != 1) return fmt::format("bean {} on cell {}", b, c);
    seen[c] = true;
    ++taken;
  }
  for (int c = 0; c < kCells; ++c)
    if (!seen[c] && state.cells[c] != 0)
      return fmt::format("cell {} has code {} but no snake or bean is there", c, state.code(c));
  if (state.free_cells() != kCells - taken) return "the number of free cells is wrong";
  if (n_beans < kBeans && state.free_cells() > 0) return "beans are missing though there is room";
  if (state.step() < 1 || state.step() > kMaxSteps + 1) return "the step is not 1..201";
  // No step changes a team's sum by more than all cells, so a game that goes on from here stays within the bound.
  const int most = state.step() * kCells;
  for (const std::int32_t sum : state.returns)
    if (sum < -most || sum > most)
      return fmt::format("a team's rewards sum up to {} before step {}", sum, state.step());
  if (!state.done() && (state.step() > kMaxSteps || kBeans + state.segments() > kCells))
    return "should be done";
  return {};
}

}  // namespace

void refuse(const Actions& actions) {
  const auto at = std::find_if(std::begin(actions.of), std::end(actions.of),
                               [](std::uint8_t action) { return action >= kMoves; });
  throw core::UsageError(
      fmt::format("the action of snake {} is {}, not 0..3", at - std::begin(actions.of), *at));
}

State make_state(const Position& position) {
  State state;
  const std::string fault = build(position, state);
  SD_CHECK(fault.empty(), fault);
  return state;
}

std::string fault_of_image(const void* image) {
  const auto* bytes = static_cast<const std::uint8_t*>(image);
  if (bytes[offsetof(State, is_done)] > 1)  // a bool with another value is undefined
    return fmt::format("done is {}, not 0 or 1", bytes[offsetof(State, is_done)]);
  State state;
  std::memcpy(&state, image, sizeof state);
  return contradiction_in(state);
}

std::string fault_of(const Position& position) {
  State state;
  const std::string fault = build(position, state);
  return fault.empty() ? contradiction_in(state) : fault;
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

State new_board(const Draws& draws) {
  State state;
  PhiloxChance chance(draws.seed, draws.stream);
  reset(state, chance);
  return state;
}

StepResult advance(State& state, const Actions& actions, const Draws& draws) {
  PhiloxChance chance(draws.seed, draws.stream);
  return step(state, actions, chance);
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
  const std::string fault = contradiction_in(state);
  if (fault.empty()) return;
  std::string board;  // a disconnected body cannot be drawn by `picture`
  for (int c = 0; c < kCells; ++c) {
    board += fmt::format("{:2x} ", state.cells[c]);
    if (column_of(c) == kCols - 1) board += '\n';
  }
  throw core::Bug(fmt::format("inconsistent board at step {}: {}\ncells (code | link << 3):\n{}",
                              state.step(), fault, board));
}

}  // namespace snake_ddp::game
