#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>

#include "snake_ddp/app/board_text.hpp"
#include "snake_ddp/app/command_line.hpp"
#include "snake_ddp/app/play_screen.hpp"
#include "snake_ddp/app/team.hpp"
#include "snake_ddp/app/terminal.hpp"
#include "snake_ddp/base/console.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/text.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/game/rules.hpp"
#include "snake_ddp/records/atomic_file.hpp"
#include "snake_ddp/records/folders.hpp"
#include "snake_ddp/records/game_log.hpp"
#include "snake_ddp/records/output_file.hpp"
#include "snake_ddp/records/verify_trace.hpp"

namespace snake_ddp::app {
namespace {

struct PlayLine {
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
  records::RecordedGame record;
};

Game new_game(std::uint64_t seed) {
  Game game{game::new_board({seed, 0}), {}};
  game.record = records::begin_record(game.state);
  return game;
}

// The game of a log after some steps, on exactly its board.
Game from_log(const PlayLine& line) {
  records::RecordedGame record = records::nth_game(line.from, line.game);
  const std::vector<game::State> boards = records::boards_of(record, line.from);
  const auto step = static_cast<std::size_t>(line.step.value_or(0));
  if (step >= boards.size() || boards[step].done()) {
    throw base::UsageError(fmt::format("--step {}: {} has {}; the last one to continue from is {}", step,
                                       line.from, base::counted(record.steps.size(), "step"),
                                       boards.size() - (boards.back().done() ? 2 : 1)));
  }
  record.steps.resize(step);
  const auto moves_unknown = [](const records::RecordedStep& s) {
    return std::count(s.actions.begin(), s.actions.end(), records::kUnknown) > 0;
  };
  if (!line.record.empty() && std::any_of(record.steps.begin(), record.steps.end(), moves_unknown)) {
    throw base::UsageError(fmt::format(
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
    text += fmt::format("You died: {}. You are back. ", base::counted(result.reward[you], "point"));
  if (result.hit[you] == 0 && result.reward[you] > 0) text += "Yum! ";
  if (!foes.empty()) text += fmt::format("Foe {} died! ", fmt::join(foes, ", "));
  if (!mates.empty()) text += fmt::format("Mate {} died. ", fmt::join(mates, ", "));
  return text;
}

struct Tally {
  int beans = 0, deaths = 0;
};

// Plays to the end of the game, or until the player quits.
Tally play(const PlayLine& line, const Team& a, const Team& b, std::uint64_t seed, int you, Game& game) {
  const auto mover_a = rollout::mover(a.player)(seed), mover_b = rollout::mover(b.player)(seed);
  const base::Abilities able = base::abilities();
  Terminal terminal(able);
  const auto step_time = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * line.pace));
  Steering steering;
  Tally tally;
  bool paused = true, seen = true;
  std::string says = fmt::format("You are {}. Turn or press space to begin.", game::letter(you));
  for (bool changed = true; !game.state.done();) {
    if (changed || terminal.resized()) seen = terminal.show(play_text({game.state, you, says, able}));
    changed = false;
    for (const base::Deadline next = base::Deadline::in(step_time); !next.passed();) {
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
    records::add_step(game.record, actions, result, game.state);
    if (result.hit[you] != 0) steering.forget();
    tally.deaths += result.hit[you];
    tally.beans += result.reward[you] > 0 && result.hit[you] == 0 ? 1 : 0;
    says = news(result, you);
    changed = true;
  }
  return tally;
}

std::string summary(const PlayLine& line, const Game& game, int you, std::uint64_t seed, const Tally& tally) {
  const int team = you / game::kTeamSize;
  const int mine = game.state.team_return(team), theirs = game.state.team_return(1 - team);
  const std::string score = fmt::format("{} : {}", mine, theirs);
  std::string text;
  if (!game.state.done()) {
    text = fmt::format("Ended after {}, {}.\n", base::counted(game.state.step() - 1, "step"), score);
  } else {
    text = fmt::format("{} {}\n",
                       mine > theirs   ? "You win!"
                       : mine < theirs ? "You lose."
                                       : "A draw.",
                       score);
  }
  text += fmt::format("Your snake ate {} and died {}; it is {} long. Seed {}.\n",
                      base::counted(tally.beans, "bean"), base::counted(tally.deaths, "time"),
                      game.state.length(you), seed);
  if (line.record.empty()) return text + "--record FILE saves the game for snake_ddp replay.\n";
  return text + fmt::format("Look at it: snake_ddp replay {} --html game.html --blunders\n", line.record);
}

}  // namespace

Action add_play(CLI::App& command) {
  const auto line = std::make_shared<PlayLine>();
  command
      .add_option("--team_a,--team-a", line->team_a,
                  "snakes A, B and C except yours: a team as in eval, also with a search (PATH:look4)")
      ->capture_default_str();
  command.add_option("--team_b,--team-b", line->team_b, "snakes D, E and F")->capture_default_str();
  command.add_option("--snake", line->snake, "your snake, A to F")
      ->check(CLI::IsMember({"A", "B", "C", "D", "E", "F"}, CLI::ignore_case))
      ->capture_default_str();
  add_number(command, "pace", line->pace, "seconds per step", 0.05, 10.0);
  command.add_option("--seed", line->seed,
                     "random seed: the same start and beans again [a new one each time]");
  command.add_option("--record", line->record, "write the game to this file as a log");
  command.add_option("--from", line->from, "continue from a game log, on exactly its board");
  command.add_option("--game", line->game, "number of the game in that file, from 0 [0]")
      ->check(CLI::Range(std::int64_t{0}, kMostCount));
  command.add_option("--step", line->step, "steps of that game to keep [0]")
      ->check(CLI::Range(0, game::kMaxSteps));
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
    if (!folder.empty()) records::make_folders(folder.string());
    if (!line->record.empty()) records::check_output(line->record);
    at::set_num_threads(1);
    const Tally tally = play(*line, a, b, seed, you, game);
    game.record.cut_off = !game.state.done();
    if (!line->record.empty()) records::write_output(line->record, records::game_log_text(game.record));
    base::print_result(summary(*line, game, you, seed, tally));
    return base::kExitDone;
  };
}

}  // namespace snake_ddp::app
