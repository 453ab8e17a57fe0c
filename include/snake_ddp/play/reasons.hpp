// Why a team moved as it did.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "snake_ddp/game/state.hpp"

namespace snake_ddp::play {

/// How a team valued its snakes' moves on one board, and what it expected to follow.
struct Reasons {
  /// What `worth` means: probabilities; a Q-network's values, in units of its rewards; of a search, the lead to come in
  /// points per snake.
  enum class Kind : std::uint8_t { kNone, kProbabilities, kValues, kLook, kTree };

  template <class Number>
  using OfMoves = std::array<std::array<Number, game::kMoves>, game::kTeamSize>;

  Kind kind = Kind::kNone;
  OfMoves<double> worth{};                             // kClosed: a move that was not considered
  OfMoves<int> visits{};                               // of a tree
  std::vector<std::array<int, game::kSnakes>> line{};  // a search's: moves of all snakes from this step on
};

inline constexpr double kClosed = std::numeric_limits<double>::quiet_NaN();

/// In a line, for a snake that is expected to have died earlier: where it respawns is random.
inline constexpr int kGone = -1;

/// The names in files.
inline constexpr std::array kReasonKinds{"none", "probabilities", "values", "look", "tree"};

}  // namespace snake_ddp::play
