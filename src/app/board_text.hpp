// A board for a terminal, and games played there.
#pragma once

#include <array>
#include <string>

#include "io/game_log.hpp"

namespace snake_ddp::app {

/// A moment of a game: the board, and the text around it.
struct Moment {
  const io::RecordedBoard& board;
  const std::array<std::string, 2>& names;
  std::array<int, 2> scores{};  // sums of rewards
  int step = 0;                 // steps played
  io::PerSnake hit{};           // 1: died in the last of them
};

/// Two characters a cell: heads are a capital letter and an arrow, bodies the letter doubled, beans
/// `()`. With `colour`, ANSI escapes for a dark or light terminal. Control characters of names become `?`.
std::string board_text(const Moment& moment, bool colour);

/// A name from a file, made safe for a terminal: control characters become `?`.
std::string harmless(const std::string& name);

/// Prints one moment. On a terminal it replaces the previous one and stays for 1 / `per_second`; otherwise moments
/// are printed one below the other, at once.
void show_moment(const Moment& moment, double per_second);

/// Shows a whole game with show_moment.
void show_game(const io::RecordedGame& game, double per_second);

}  // namespace snake_ddp::app
