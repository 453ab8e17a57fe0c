#include "snake_ddp/app/play_screen.hpp"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "snake_ddp/app/board_text.hpp"
#include "snake_ddp/game/position.hpp"

namespace snake_ddp::app {
namespace {

// From the 256 colours that terminals share. Blue and orange are distinct with any kind of colour vision; heads have
// letters.
constexpr int kFloor = 235, kOtherFloor = 236, kBean = 114, kYou = 231, kDark = 16;
constexpr std::array<int, game::kSnakes> kBodies{33, 75, 26, 208, 214, 172};
constexpr int kPixels = 3;  // per cell, across and down; half a character is as wide as it is high
constexpr int kWide = game::kCols * kPixels, kHigh = game::kRows * kPixels;

struct Picture {
  std::array<std::array<int, kWide>, kHigh> colour{};
  std::array<std::array<std::string, kWide>, kHigh / 2> letter{};  // in place of two pixels

  void fill(int cell, int rows, int columns, int top, int left, int with) {
    for (int y = top; y < top + rows; ++y)
      for (int x = left; x < left + columns; ++x)
        colour[static_cast<std::size_t>(game::row_of(cell) * kPixels + y)]
              [static_cast<std::size_t>(game::column_of(cell) * kPixels + x)] = with;
  }
};

// A body is two pixels thick; the third pixel connects it to the next segment.
void draw_snake(Picture& picture, const game::State& state, int snake, bool you) {
  const int with = you ? kYou : kBodies[static_cast<std::size_t>(snake)];
  std::uint8_t cells[game::kCells];
  const int count = state.body(snake, cells);
  for (int k = 0; k < count; ++k) {
    picture.fill(cells[k], 2, 2, 0, 0, with);
    for (const int other : {k - 1, k + 1}) {
      if (other < 0 || other >= count) continue;
      if (game::follow(cells[k], game::kRight) == cells[other]) picture.fill(cells[k], 2, 1, 0, 2, with);
      if (game::follow(cells[k], game::kDown) == cells[other]) picture.fill(cells[k], 1, 2, 2, 0, with);
    }
  }
  if (count == 0) return;
  picture.fill(cells[0], kPixels, kPixels, 0, 0, with);
  // The text line that shows only this cell.
  const auto line = static_cast<std::size_t>((game::row_of(cells[0]) * kPixels + 1) / 2);
  const auto column = static_cast<std::size_t>(game::column_of(cells[0]) * kPixels + 1);
  constexpr std::array kPointers{"▲", "▼", "◀", "▶"};
  picture.letter[line][column] =
      you ? kPointers[static_cast<std::size_t>(state.direction(snake))] : std::string(1, game::letter(snake));
}

std::vector<std::string> block_lines(const game::State& state, int you) {
  Picture picture;
  for (int cell = 0; cell < game::kCells; ++cell)
    picture.fill(cell, kPixels, kPixels, 0, 0,
                 (game::row_of(cell) + game::column_of(cell)) % 2 == 0 ? kFloor : kOtherFloor);
  for (int b = 0; b < state.bean_count(); ++b) {
    picture.fill(state.bean(b), 1, 3, 1, 0, kBean);
    picture.fill(state.bean(b), 3, 1, 0, 1, kBean);
  }
  for (int snake = 0; snake < game::kSnakes; ++snake) draw_snake(picture, state, snake, snake == you);
  std::vector<std::string> lines;
  for (std::size_t line = 0; line < picture.letter.size(); ++line) {
    std::string text;
    int upper = -1, lower = -1;
    for (std::size_t x = 0; x < kWide; ++x) {
      const int top = picture.colour[2 * line][x], bottom = picture.colour[2 * line + 1][x];
      const std::string& letter = picture.letter[line][x];
      const int front = letter.empty() ? top : kDark, back = letter.empty() ? bottom : top;
      if (front != upper || back != lower) text += fmt::format("\x1b[38;5;{};48;5;{}m", front, back);
      upper = front;
      lower = back;
      text += letter.empty() ? "▀" : letter;
    }
    lines.push_back(text + "\x1b[0m");
  }
  return lines;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// The board as text, without its first and last line, whose contents are beside the board here.
std::vector<std::string> plain_lines(const game::State& state, bool colour) {
  const game::Position position = game::position_of(state);
  std::vector<std::string> lines =
      split(board_text({position, {}, position.returns, state.step() - 1, {}}, colour));
  return {lines.begin() + 1, lines.end() - 1};
}

std::vector<std::string> side_lines(const PlayScreen& screen) {
  const game::State& state = screen.state;
  const int team = screen.you / game::kTeamSize;
  std::vector<std::string> lines = {
      fmt::format("{} : {}", state.team_return(team), state.team_return(1 - team)), "you : them", ""};
  for (int i = 0; i < game::kSnakes; ++i) {
    const int snake = (i + team * game::kTeamSize) % game::kSnakes;
    const char* who = snake == screen.you ? "you" : i < game::kTeamSize ? "mate" : "foe";
    const int colour = snake == screen.you ? kYou : kBodies[static_cast<std::size_t>(snake)];
    std::string badge(1, game::letter(snake));
    if (screen.abilities.colour) badge = fmt::format("\x1b[38;5;{};48;5;{}m{}\x1b[0m", kDark, colour, badge);
    lines.push_back(fmt::format("{} {:<4} {:>3}", badge, who, state.length(snake)));
  }
  lines.insert(lines.end(), {"", fmt::format("step {}/{}", state.step() - 1, game::kMaxSteps)});
  return lines;
}

}  // namespace

std::string play_text(const PlayScreen& screen) {
  const bool blocks = screen.abilities.colour && screen.abilities.utf8;
  const std::vector<std::string> board =
      blocks ? block_lines(screen.state, screen.you) : plain_lines(screen.state, screen.abilities.colour);
  const std::vector<std::string> side = side_lines(screen);
  std::string text = "\n";
  for (std::size_t k = 0; k < board.size(); ++k)
    text += fmt::format(" {}   {}\n", board[k], k >= 1 && k <= side.size() ? side[k - 1] : "");
  return text + fmt::format("\n {}\n arrows, WASD or hjkl turn   space pauses   q ends\n", screen.says);
}

}  // namespace snake_ddp::app
