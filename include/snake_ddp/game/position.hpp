// A board spelled out: as lists, as a drawing, as a fingerprint; and whether it contradicts itself.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

/// What lies on a board.
struct Layout {
  std::array<std::vector<int>, kSnakes> snakes;  // cells, head first
  std::array<int, kSnakes> directions{};
  std::vector<int> beans;  // cells, in list order

  bool operator==(const Layout&) const = default;
};

/// A board spelled out, for traces and tests.
struct Position : Layout {
  int step = 1;
  std::array<int, 2> returns{};
  bool done = false;

  bool operator==(const Position&) const = default;
};

/// Why these bytes, from a file or from another program, are not the image of a State that a game can have; empty if they are
/// one. Everything that reads images calls this before it copies them to a State.
/// Shapes  image [sizeof(State)] bytes, of any alignment.
std::string fault_of_image(const void* image);

/// Why a game cannot have this position, likewise: cells outside the board or taken twice, disconnected bodies, a wrong
/// direction, too many beans or too few, a snake too short (or empty on a board that is not done), a game that should be done.
std::string fault_of(const Position& position);

/// The state of `position`, which may lack beans and be done too late.
/// Throws  Bug if it has another fault.
State make_state(const Position& position);
Position position_of(const State& state);

/// The board as text: `.` free, `o` bean, heads `A`..`F`, other segments an arrow `^v<>` to the next segment
/// towards the head (`r` and `d`: across a gap, two to the right or two down); then the values that a drawing
/// does not contain.
std::string picture(const State& state);

/// The state of a drawing as `picture` makes it. Any line below the board may be missing: a head
/// then faces away from its neck, beans are listed in reading order, the step is 1.
/// Throws      Bug if the drawing cannot be parsed.
State drawn(std::string_view picture);

/// A fingerprint of everything that the functions of State return, independent of the layout.
std::uint64_t hash(const State& state);

/// Throws  Bug with the cells if cells, bodies, beans and counters contradict each other.
void check_consistency(const State& state);

}  // namespace snake_ddp::game
