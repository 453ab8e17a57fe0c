// A board as text, and back.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/position.hpp"

namespace snake_ddp::game {

namespace {

constexpr std::string_view kArrows = "^v<>rd";  // by link

[[noreturn]] void cannot_read(std::string_view line, const char* why) {
  throw core::Bug(fmt::format("drawn board: {}: \"{}\"", why, line));
}

int direction_of(const std::string& word, std::string_view line) {
  const auto at = std::find(std::begin(kDirectionNames), std::end(kDirectionNames), word);
  if (at == std::end(kDirectionNames)) cannot_read(line, "not a direction");
  return static_cast<int>(at - std::begin(kDirectionNames));
}

/// The snake of the segment at `cell`: follows the arrows to a head.
int owner(const std::string& board, int cell) {
  for (int steps = 0; steps < kCells; ++steps) {
    const char mark = board[static_cast<std::size_t>(cell)];
    if (mark >= 'A' && mark < 'A' + kSnakes) return mark - 'A';
    const std::size_t link = kArrows.find(mark);
    if (link == std::string_view::npos) break;
    cell = follow(cell, static_cast<int>(link));
  }
  throw core::Bug(fmt::format("drawn board: the arrow on cell {} leads to no head", cell));
}

/// The lines below the board: "A left", "beans 3 17 ...", "step 5", "returns 1 -2", "done".
void read_note(const std::string& line, Position& position) {
  std::istringstream in(line);
  std::string word;
  in >> word;
  if (word.size() == 1 && word[0] >= 'A' && word[0] < 'A' + kSnakes) {
    std::string direction;
    in >> direction;
    position.directions[static_cast<std::size_t>(word[0] - 'A')] = direction_of(direction, line);
  } else if (word == "beans") {
    std::vector<int> listed;
    for (int cell = 0; in >> cell;) listed.push_back(cell);
    if (!std::is_permutation(listed.begin(), listed.end(), position.beans.begin(), position.beans.end()))
      cannot_read(line, "not the beans on the board");
    position.beans = listed;
  } else if (word == "step") {
    in >> position.step;
    if (!in) cannot_read(line, "no number");
  } else if (word == "returns") {
    in >> position.returns[0] >> position.returns[1];
    if (!in) cannot_read(line, "not two numbers");
  } else if (word == "done") {
    position.done = true;
  } else {
    cannot_read(line, "not understood");
  }
}

}  // namespace

std::string picture(const State& state) {
  std::string board(kCells, '.');
  for (int b = 0; b < state.bean_count(); ++b) board[static_cast<std::size_t>(state.bean(b))] = 'o';
  for (int c = 0; c < kCells; ++c)
    if (state.code(c) > 1)
      board[static_cast<std::size_t>(c)] = kArrows[std::min(state.cells[c] >> 3, kLinks - 1)];
  for (int i = 0; i < kSnakes; ++i)
    if (state.length(i) > 0) board[static_cast<std::size_t>(state.head(i))] = letter(i);
  std::string text;
  for (int r = 0; r < kRows; ++r) text += board.substr(static_cast<std::size_t>(r * kCols), kCols) + '\n';
  for (int i = 0; i < kSnakes; ++i)
    text += fmt::format("{} {} length {} score {}\n", letter(i), kDirectionNames[state.direction(i) & 3],
                        state.length(i), state.length(i) - kStartLength);
  text += "beans";
  for (int b = 0; b < state.bean_count(); ++b) text += fmt::format(" {}", state.bean(b));
  text += fmt::format("\nstep {}\nreturns {} {}\n", state.step(), state.team_return(0), state.team_return(1));
  if (state.done()) text += "done\n";
  return text;
}

State drawn(std::string_view picture) {
  std::istringstream in{std::string(picture)};
  std::string board, line;
  std::vector<std::string> notes;
  while (std::getline(in, line)) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    line = line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
    if (board.size() < kCells) {
      if (line.size() != kCols) cannot_read(line, "a row of the board has 20 cells");
      board += line;
    } else {
      notes.push_back(line);
    }
  }
  if (board.size() != kCells) cannot_read(picture, "a board has 10 rows");

  Position position;
  int tail_side[kCells];  // the segment whose arrow leads here
  std::fill(std::begin(tail_side), std::end(tail_side), -1);
  for (int c = 0; c < kCells; ++c) {
    const char mark = board[static_cast<std::size_t>(c)];
    const std::size_t link = kArrows.find(mark);
    if (mark == 'o')
      position.beans.push_back(c);
    else if (link != std::string_view::npos) {
      owner(board, c);
      const int next = follow(c, static_cast<int>(link));
      if (tail_side[next] >= 0) cannot_read(line, "two arrows lead to one cell");
      tail_side[next] = c;
    } else if (mark != '.' && !(mark >= 'A' && mark < 'A' + kSnakes)) {
      cannot_read(board, "unknown mark on the board");
    }
  }
  for (int i = 0; i < kSnakes; ++i) {
    const std::size_t head = board.find(letter(i));
    if (head == std::string::npos) continue;
    std::vector<int>& body = position.snakes[static_cast<std::size_t>(i)];
    for (int c = static_cast<int>(head); c >= 0; c = tail_side[c]) body.push_back(c);
    if (body.size() < 2) continue;  // make_state rejects it
    const std::size_t link = kArrows.find(board[static_cast<std::size_t>(body[1])]);
    position.directions[static_cast<std::size_t>(i)] = static_cast<int>(link) % 4;
  }
  for (const std::string& note : notes) read_note(note, position);
  return make_state(position);
}

}  // namespace snake_ddp::game
