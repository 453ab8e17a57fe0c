#include "app/board_text.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/printable.hpp"

namespace snake_ddp::app {
namespace {

constexpr std::string_view kSmall = "abcdef", kArrows = "^v<>";
// Team A white on blue, team B black on yellow: distinct with any kind of colour vision.
constexpr std::array<std::string_view, 2> kTeamColour{"\x1b[97;44m", "\x1b[30;43m"};
constexpr std::string_view kBeanColour = "\x1b[1;32m", kFaint = "\x1b[2m", kPlain = "\x1b[0m";

struct Cell {
  std::string text = ". ";
  std::string_view colour = kFaint;
};

}  // namespace

// No control character may reach the terminal. 0xc2 0x80..0x9f are control characters in UTF-8.
std::string harmless(const std::string& name) {
  std::string text;
  for (std::size_t k = 0; k < name.size(); ++k) {
    const auto c = static_cast<unsigned char>(name[k]);
    const auto next = static_cast<unsigned char>(k + 1 < name.size() ? name[k + 1] : 0);
    if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
      text += '?';
      ++k;
    } else {
      text += c < 0x20 || c == 0x7f ? '?' : name[k];
    }
  }
  return text;
}

std::string board_text(const Moment& moment, bool colour) {
  std::array<Cell, game::kCells> cells;
  for (const int bean : moment.board.beans) cells[static_cast<std::size_t>(bean)] = {"()", kBeanColour};
  for (std::size_t i = 0; i < game::kSnakes; ++i) {
    const std::vector<int>& body = moment.board.snakes[i];
    for (std::size_t k = body.size(); k-- > 0;) {  // the head last, on top
      const int direction = moment.board.directions[i];
      const char looks = direction == io::kUnknown ? kSmall[i] : kArrows[static_cast<std::size_t>(direction)];
      const std::string head{game::letter(static_cast<int>(i)), looks};
      cells[static_cast<std::size_t>(body[k])] = {k == 0 ? head : std::string(2, kSmall[i]),
                                                  kTeamColour[i / game::kTeamSize]};
    }
  }
  const auto painted = [colour](std::string_view how, const std::string& what) {
    return colour ? fmt::format("{}{}{}", how, what, kPlain) : what;
  };
  std::string text =
      fmt::format("{} {} : {} {}   step {}\n", painted(kTeamColour[0], " " + harmless(moment.names[0]) + " "),
                  moment.scores[0], moment.scores[1],
                  painted(kTeamColour[1], " " + harmless(moment.names[1]) + " "), moment.step);
  const std::string edge = "+" + std::string(2 * game::kCols, '-') + "+\n";
  text += edge;
  for (int row = 0; row < game::kRows; ++row) {
    text += '|';
    for (int column = 0; column < game::kCols; ++column) {
      const Cell& cell = cells[static_cast<std::size_t>(row * game::kCols + column)];
      text += painted(cell.colour, cell.text);
    }
    text += "|\n";
  }
  text += edge;
  for (std::size_t i = 0; i < game::kSnakes; ++i) {
    const int score = static_cast<int>(moment.board.snakes[i].size()) - game::kStartLength;
    text += fmt::format(
        "{}{} {}{}", i == 0 ? "" : "   ",
        painted(kTeamColour[i / game::kTeamSize], std::string(1, game::letter(static_cast<int>(i)))), score,
        moment.hit[i] != 0 ? " died" : "");
  }
  return text + "\n";
}

void show_moment(const Moment& moment, double per_second) {
  if (::isatty(STDOUT_FILENO) == 0) {
    core::print_result(fmt::format("{}\n", board_text(moment, false)));
    return;
  }
  std::string text = board_text(moment, true);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 4)
    text.replace(at, 1, "\x1b[K\n");
  core::draw(fmt::format("{}{}\x1b[J", moment.step == 0 ? "\x1b[2J\x1b[H" : "\x1b[H", text));
  std::this_thread::sleep_for(std::chrono::duration<double>(1 / per_second));
}

void show_game(const io::RecordedGame& game, double per_second) {
  std::array<int, 2> scores{};
  int count = 0;
  show_moment({game.start, game.names, scores, count, {}}, per_second);
  for (const io::RecordedStep& step : game.steps) {
    for (std::size_t i = 0; i < game::kSnakes; ++i) scores[i / game::kTeamSize] += step.reward[i];
    show_moment({step.after, game.names, scores, ++count, step.hit}, per_second);
  }
}

}  // namespace snake_ddp::app
