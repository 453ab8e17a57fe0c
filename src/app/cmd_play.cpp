#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "app/board_text.hpp"
#include "app/command_line.hpp"
#include "app/team.hpp"
#include "app/terminal.hpp"
#include "io/atomic_file.hpp"
#include "io/folders.hpp"
#include "io/game_log.hpp"
#include "io/verify_trace.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/game/rules.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::app {
namespace {

struct PlayScreen {
  const game::State& state;
  int you = 0;       // the person's snake
  std::string says;  // a line below the board
  core::Abilities abilities;
};

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

// At most 80 columns and 24 lines. In colour and UTF-8 each cell is three half characters wide and high; otherwise
// as board_text.
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

struct PlayArgs {
  std::string team_a = kChampion, team_b = kChampion;
  std::string snake = "A";
  double pace = 0.4;
  std::optional<std::uint64_t> seed;
  std::string from, record;
  std::optional<std::int64_t> game;
  std::optional<int> step;
};

// A game in progress, with everything before.
struct Game {
  game::State state;
  io::RecordedGame record;
};

Game new_game(std::uint64_t seed) {
  Game game{game::new_board({seed, 0}), {}};
  game.record = io::begin_record(game.state);
  return game;
}

// The game of a log after some steps, on exactly its board.
Game from_log(const PlayArgs& line) {
  io::RecordedGame record = io::nth_game(line.from, line.game);
  const std::vector<game::State> boards = io::boards_of(record, line.from);
  const auto step = static_cast<std::size_t>(line.step.value_or(0));
  if (step >= boards.size() || boards[step].done()) {
    throw core::UsageError(fmt::format("--step {}: {} has {}; the last one to continue from is {}", step,
                                       line.from, core::counted(record.steps.size(), "step"),
                                       boards.size() - (boards.back().done() ? 2 : 1)));
  }
  record.steps.resize(step);
  const auto moves_unknown = [](const io::RecordedStep& s) {
    return std::count(s.actions.begin(), s.actions.end(), io::kUnknown) > 0;
  };
  if (!line.record.empty() && std::any_of(record.steps.begin(), record.steps.end(), moves_unknown)) {
    throw core::UsageError(fmt::format(
        "--record: {} does not contain the chosen moves, so a log cannot start from it; leave out --record",
        line.from));
  }
  // A log lacks the last directions of snakes that died.
  if (step > 0) record.steps.back().after.directions = game::position_of(boards[step]).directions;
  record.cut_off = false;
  return {boards[step], std::move(record)};
}

// The last turns that were pressed; one is used per step, so that two quick keys are two turns.
class Steering {
 public:
  void press(Key key) {
    if (turns_.size() == kMost) turns_.pop_back();
    turns_.push_back(static_cast<std::uint8_t>(key));
  }
  std::uint8_t next(int direction) {
    while (!turns_.empty()) {
      const std::uint8_t turn = turns_.front();
      turns_.pop_front();
      if (turn != (direction ^ 1)) return turn;  // the rules replace a reversal by a random direction
    }
    return static_cast<std::uint8_t>(direction);
  }
  void forget() { turns_.clear(); }

 private:
  static constexpr std::size_t kMost = 2;
  std::deque<std::uint8_t> turns_;
};

// The deaths and points of a step, in words.
std::string news(const game::StepResult& result, int you) {
  const int team = you / game::kTeamSize;
  std::string mates, foes;
  for (int i = 0; i < game::kSnakes; ++i)
    if (result.hit[i] != 0 && i != you) (i / game::kTeamSize == team ? mates : foes) += game::letter(i);
  std::string text;
  if (result.hit[you] != 0)
    text += fmt::format("You died: {}. You are back. ", core::counted(result.reward[you], "point"));
  if (result.hit[you] == 0 && result.reward[you] > 0) text += "Yum! ";
  if (!foes.empty()) text += fmt::format("Foe {} died! ", fmt::join(foes, ", "));
  if (!mates.empty()) text += fmt::format("Mate {} died. ", fmt::join(mates, ", "));
  return text;
}

struct Tally {
  int beans = 0, deaths = 0;
};

// Plays to the end of the game, or until the player quits.
Tally play(const PlayArgs& line, const Team& a, const Team& b, std::uint64_t seed, int you, Game& game) {
  const auto mover_a = rollout::mover(a.player)(seed), mover_b = rollout::mover(b.player)(seed);
  const core::Abilities able = core::abilities();
  Terminal terminal(able);
  const auto step_time = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * line.pace));
  Steering steering;
  Tally tally;
  bool paused = true, seen = true;
  std::string says = fmt::format("You are {}. Turn or press space to begin.", game::letter(you));
  for (bool changed = true; !game.state.done();) {
    if (changed || terminal.resized()) seen = terminal.show(play_text({game.state, you, says, able}));
    changed = false;
    for (const core::Deadline next = core::Deadline::in(step_time); !next.passed();) {
      const std::optional<Key> key = terminal.key(next);
      if (!key) continue;
      if (key == Key::kQuit) return tally;
      const bool was = paused;
      paused = key == Key::kPause && !paused;
      if (key != Key::kPause) steering.press(*key);
      if (was == paused) continue;
      says = paused ? "Paused; press space to continue." : "";
      changed = true;
      break;
    }
    if (paused || changed || !seen) continue;
    game::Actions actions{};
    const std::uint8_t sides[] = {0, 1};
    mover_a->act({&game.state, 1}, {&sides[0], 1}, 0, {&actions, 1}, {});
    mover_b->act({&game.state, 1}, {&sides[1], 1}, 0, {&actions, 1}, {});
    actions.of[you] = steering.next(game.state.direction(you));
    const game::StepResult result = game::advance(game.state, actions, {seed, 0});
    io::add_step(game.record, actions, result, game.state);
    if (result.hit[you] != 0) steering.forget();
    tally.deaths += result.hit[you];
    tally.beans += result.reward[you] > 0 && result.hit[you] == 0 ? 1 : 0;
    says = news(result, you);
    changed = true;
  }
  return tally;
}

std::string summary(const PlayArgs& line, const Game& game, int you, std::uint64_t seed, const Tally& tally) {
  const int team = you / game::kTeamSize;
  const int mine = game.state.team_return(team), theirs = game.state.team_return(1 - team);
  const std::string score = fmt::format("{} : {}", mine, theirs);
  std::string text;
  if (!game.state.done()) {
    text = fmt::format("Ended after {}, {}.\n", core::counted(game.state.step() - 1, "step"), score);
  } else {
    text = fmt::format("{} {}\n",
                       mine > theirs   ? "You win!"
                       : mine < theirs ? "You lose."
                                       : "A draw.",
                       score);
  }
  text += fmt::format("Your snake ate {} and died {}; it is {} long. Seed {}.\n",
                      core::counted(tally.beans, "bean"), core::counted(tally.deaths, "time"),
                      game.state.length(you), seed);
  if (line.record.empty()) return text + "--record FILE saves the game for snake_ddp replay.\n";
  return text + fmt::format("Look at it: snake_ddp replay {} --html game.html --blunders\n", line.record);
}

}  // namespace

Action add_play(CLI::App& command) {
  const auto line = std::make_shared<PlayArgs>();
  command
      .add_option("--team_a,--team-a", line->team_a,
                  "snakes A, B and C except yours: a team as in eval, also with a search (PATH:look4)")
      ->capture_default_str()
      ->option_text("TEAM");
  command.add_option("--team_b,--team-b", line->team_b, "snakes D, E and F")
      ->capture_default_str()
      ->option_text("TEAM");
  command.add_option("--snake", line->snake, "your snake, A to F")
      ->check(CLI::IsMember({"A", "B", "C", "D", "E", "F"}, CLI::ignore_case))
      ->capture_default_str()
      ->option_text("LETTER");
  add_number(command, "pace", line->pace, "seconds per step", 0.05, 10.0);
  command
      .add_option("--seed", line->seed, "random seed: the same start and beans again [a new one each time]")
      ->option_text("N");
  command.add_option("--record", line->record, "write the game to this file as a log")->option_text("FILE");
  command.add_option("--from", line->from, "continue from a game log, on exactly its board")
      ->option_text("FILE");
  command.add_option("--game", line->game, "number of the game in the file of --from, from 0 [0]")
      ->check(CLI::Range(std::int64_t{0}, kMostCount))
      ->option_text("N");
  command.add_option("--step", line->step, "steps of the game of --from to keep [0]")
      ->check(CLI::Range(0, game::kMaxSteps))
      ->option_text("N");
  only_with(command, "--game", "--from");
  only_with(command, "--step", "--from");
  return [line]() -> int {
    const Team a = team_from_spec(line->team_a), b = team_from_spec(line->team_b);
    for (const Team* team : {&a, &b}) tell_remark(*team);
    const std::uint64_t seed = line->seed ? *line->seed : std::random_device()() % 1'000'000;
    const int you = (line->snake[0] | 32) - 'a', team = you / game::kTeamSize;
    Game game = line->from.empty() ? new_game(seed) : from_log(*line);
    game.record.names = {line->team_a, line->team_b};
    std::string& name = game.record.names[static_cast<std::size_t>(team)];
    name = fmt::format("you ({}) and {}", game::letter(you), name);
    const std::filesystem::path folder = std::filesystem::path(line->record).parent_path();
    if (!folder.empty()) io::make_folders(folder.string());
    if (!line->record.empty()) io::check_output(line->record);
    at::set_num_threads(1);
    const Tally tally = play(*line, a, b, seed, you, game);
    game.record.cut_off = !game.state.done();
    if (!line->record.empty()) io::write_output(line->record, io::game_log_text(game.record));
    core::print_result(summary(*line, game, you, seed, tally));
    return core::kExitDone;
  };
}

}  // namespace snake_ddp::app
