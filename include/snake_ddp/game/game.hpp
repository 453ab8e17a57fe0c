// The rules of snakes 3v3: one board, one step. Chance is an argument: chance.hpp lists what a `Chance` must provide.
#pragma once

#include <cstdint>

#include "snake_ddp/core/host_device.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

/// Throws UsageError that names the first action above 3.
[[noreturn]] void refuse(const Actions& actions);

namespace rules {

SD_HD constexpr std::uint8_t code_of(int snake) { return static_cast<std::uint8_t>(snake + 2); }
SD_HD constexpr std::uint8_t linked(int snake, int link) {
  return static_cast<std::uint8_t>((snake + 2) | (link << 3));
}

/// Removes the first bean on `cell` from the list; later ones move up.
SD_HD_APART inline void take_bean(State& s, int cell) {
  int i = 0;
  while (s.beans[i] != cell) ++i;
  --s.n_beans;
  for (; i < s.n_beans; ++i) s.beans[i] = s.beans[i + 1];
  s.beans[s.n_beans] = 0;
  s.cells[cell] = 0;
}

/// As many new beans as are missing, or as there are free cells.
template <class Chance>
SD_HD inline void deal_beans(State& s, Chance& chance) {
  while (s.n_beans < kBeans && s.free_cells() > 0) {
    const int cell = chance.bean(static_cast<const State&>(s));
    s.cells[cell] = 1;
    s.beans[s.n_beans++] = static_cast<std::uint8_t>(cell);
  }
}

/// Removes a dead snake's segments from the board. Its head has not been placed yet.
SD_HD_APART inline void clear_body(State& s, int snake) {
  int c = s.tails[snake];
  for (int k = s.lengths[snake] - 1; k > 0; --k) {
    const int link = s.cells[c] >> 3;
    s.cells[c] = 0;
    c = follow(c, link);
  }
}

/// Places three cells, head first; the caller knows their layout and provides the links.
SD_HD inline void put_three(State& s, int snake, int head, int neck, int tail, int tail_link, int neck_link,
                            std::uint8_t direction) {
  s.cells[tail] = linked(snake, tail_link);
  s.cells[neck] = linked(snake, neck_link);
  s.cells[head] = code_of(snake);
  s.heads[snake] = static_cast<std::uint8_t>(head);
  s.tails[snake] = static_cast<std::uint8_t>(tail);
  s.lengths[snake] = kStartLength;
  s.directions[snake] = direction;
}

/// Respawns a dead snake on the first free cell, row by row, from which three free cells can be collected
/// breadth-first (right, down, up, left). A search fails only if fewer than three free cells are connected,
/// so the cells that it visits could not serve a later search for this snake either, and need
/// no marks. Returns false if there is no room; the snake is then empty.
SD_HD_APART inline bool come_back(State& s, int snake) {
  constexpr std::uint8_t kOrder[4] = {kRight, kDown, kUp, kLeft};
  for (int c = 0; c < kCells; ++c) {
    if (s.cells[c] != 0) continue;
    int found[2];  // directions of the first two free neighbours
    int n = 0;
    for (int k = 0; k < 4 && n < 2; ++k)
      if (s.cells[follow(c, kOrder[k])] == 0) found[n++] = kOrder[k];
    if (n == 0) continue;
    const int first = follow(c, found[0]);
    int head = c, neck = first, tail, tail_link, neck_link = found[0] ^ 1;
    if (n == 2) {
      tail = follow(c, found[1]);
      if ((found[0] >> 1) != (found[1] >> 1)) {  // a bend: the corner goes to the middle
        head = first;
        neck = c;
        neck_link = found[0];
        tail_link = found[1] ^ 1;
      } else {  // a line with the head in its middle, listed head, right, left or head, down, up
        tail_link = found[0] == kRight ? kTwoRight : kTwoDown;
      }
    } else {
      int k = 0;
      while (k < 4 && (kOrder[k] == (found[0] ^ 1) || s.cells[follow(first, kOrder[k])] != 0)) ++k;
      if (k == 4) continue;
      tail = follow(first, kOrder[k]);
      tail_link = kOrder[k] ^ 1;
    }
    const bool same_row = row_of(head) == row_of(neck);
    const std::uint8_t direction = same_row ? (head > neck ? kRight : kLeft) : (head > neck ? kDown : kUp);
    put_three(s, snake, head, neck, tail, tail_link, neck_link, direction);
    return true;
  }
  s.heads[snake] = s.tails[snake] = s.lengths[snake] = 0;
  return false;
}

}  // namespace rules

/// Starts a new board.
template <class Chance>
SD_HD inline void reset(State& s, Chance& chance) {
  s = State{};
  chance.begin_reset();
  for (int i = 0; i < kSnakes; ++i) {
    for (;;) {
      const auto [tail, direction] = chance.start(static_cast<const State&>(s), i);
      const int neck = follow(tail, direction), head = follow(neck, direction);
      if ((s.cells[tail] | s.cells[neck] | s.cells[head]) != 0) continue;
      rules::put_three(s, i, head, neck, tail, direction, direction, direction);
      break;
    }
  }
  rules::deal_beans(s, chance);
  s.steps = 1;
}

namespace rules {

/// The snakes whose heads are on any other segment, or on another head; bit i is snake i.
SD_HD inline int collided(const State& s) {
  int dead = 0;
  for (int i = 0; i < kSnakes; ++i) {
    dead |= static_cast<int>(s.cells[s.heads[i]] != 0) << i;
    for (int j = 0; j < i; ++j) {
      const int both = (1 << i) | (1 << j);
      dead |= s.heads[i] == s.heads[j] ? both : 0;
    }
  }
  return dead;
}

/// Takes the dead off the board and puts the others' heads on it; then the dead respawn, in index order.
/// Returns whether each found room.
SD_HD inline bool bury(State& s, int dead, StepResult& result) {
  for (int i = 0; i < kSnakes; ++i) {
    if (((dead >> i) & 1) == 0) continue;
    result.hit[i] = 1;
    result.reward[i] = static_cast<std::int16_t>(result.reward[i] + kStartLength - s.lengths[i]);
    clear_body(s, i);
  }
  for (int i = 0; i < kSnakes; ++i)
    if (((dead >> i) & 1) == 0) s.cells[s.heads[i]] = code_of(i);
  // A dead snake has no length until it is back.
  for (int i = 0; i < kSnakes; ++i)
    if (((dead >> i) & 1) != 0) s.lengths[i] = 0;
  bool room = true;
  for (int i = 0; i < kSnakes; ++i)
    if (((dead >> i) & 1) != 0) room = come_back(s, i) && room;
  return room;
}

}  // namespace rules

/// Plays one step. A finished board stays unchanged, with rewards 0.
/// Throws  UsageError if an action is above 3 (host).
template <class Chance>
SD_HD inline StepResult step(State& s, const Actions& actions, Chance& chance) {
  StepResult result{};
  if (s.is_done) {
    for (int i = 0; i < kSnakes; ++i) result.turned[i] = s.directions[i];
    result.done = true;
    return result;
  }
#ifndef __CUDA_ARCH__
  int all = 0;
  for (int i = 0; i < kSnakes; ++i) all |= actions.of[i];
  if (all >= kMoves) [[unlikely]]
    refuse(actions);
#endif
  chance.begin_step(static_cast<const State&>(s));

  // 1 Move, in index order. Heads are placed later: a cell holds at most one segment that is not a head.
  for (int i = 0; i < kSnakes; ++i) {
    const auto back = static_cast<std::uint8_t>(s.directions[i] ^ 1);
    const std::uint8_t instead = chance.turn(i, back);
    const std::uint8_t direction = actions.of[i] == back ? instead : actions.of[i];
    const int old_head = s.heads[i], head = follow(old_head, direction), tail = s.tails[i];
    result.turned[i] = s.directions[i] = direction;
    s.heads[i] = static_cast<std::uint8_t>(head);
    s.cells[old_head] = rules::linked(i, direction);
    if (s.cells[head] == 1) {
      rules::take_bean(s, head);
      result.reward[i] = 1;
      ++s.lengths[i];
    } else {
      s.tails[i] = static_cast<std::uint8_t>(follow(tail, s.cells[tail] >> 3));
      s.cells[tail] = 0;
    }
  }

  // 2 Collide; 3 die, all before any respawns; 4 respawn.
  const int dead = rules::collided(s);
  bool room = true;
  if (dead == 0) {
    for (int i = 0; i < kSnakes; ++i) s.cells[s.heads[i]] = rules::code_of(i);
  } else {
    room = rules::bury(s, dead, result);
  }

  // 5 Beans.
  if (s.n_beans < kBeans) rules::deal_beans(s, chance);

  // 6 Count, and check whether the game is over.
  ++s.steps;
  for (int i = 0; i < kSnakes; ++i) s.returns[i / kTeamSize] += result.reward[i];
  s.is_done = s.steps > kMaxSteps || kBeans + s.segments() > kCells || !room;
  result.done = s.is_done;
  return result;
}

}  // namespace snake_ddp::game
