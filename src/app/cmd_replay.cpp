#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "app/board_text.hpp"
#include "app/command_line.hpp"
#include "app/replay_page.hpp"
#include "app/team.hpp"
#include "io/atomic_file.hpp"
#include "io/game_log.hpp"
#include "io/verify_trace.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::app {
namespace {

struct ReplayArgs {
  std::string file, html;
  std::optional<std::int64_t> game;
  bool text = false;
  double speed = 8;
  int blunders = 0;
  std::string judge = std::string(kChampion) + ":puct200";
};

Team judge_of(const ReplayArgs& line) {
  try {
    return team_from_spec(line.judge);
  } catch (const core::Error& e) {
    throw core::Error(e.exit_code(), fmt::format("--judge {}: {}", line.judge, e.what()));
  }
}

std::vector<play::Loss> blunders_of(const ReplayArgs& line, const io::RecordedGame& game) {
  const Team judge = judge_of(line);
  tell_remark(judge);
  const play::Searcher* player = judge.player.search.get();
  if (player == nullptr || player->spec.kind != play::SearchSpec::Kind::kPuct || player->spec.count == 0) {
    throw core::UsageError(
        fmt::format("--judge {}: moves are judged by a tree of simulations: give a Q-network's file and "
                    "their number, as in {}:puct200",
                    line.judge, kChampion));
  }
  const std::vector<game::State> boards = io::boards_of(game, line.file);
  std::vector<play::Turn> turns;
  for (std::size_t k = 0; k < game.steps.size(); ++k) {
    const io::RecordedStep& step = game.steps[k];
    turns.push_back({boards[k], step.actions});
    for (std::size_t i = 0; i < game::kSnakes;
         ++i) {  // logs without actions: what a living snake's body shows
      int& played = turns.back().played[i];
      if (played == io::kUnknown && step.hit[i] == 0) played = io::direction_of(step.after.snakes[i]);
    }
  }
  play::Evaluator evaluator(player->net, judge.player.obs_spec, player->training);
  std::vector<play::Loss> losses = play::losses_of(*player, std::ref(evaluator), turns);
  losses.resize(std::min(losses.size(), static_cast<std::size_t>(line.blunders)));
  return losses;
}

void print(const std::vector<play::Loss>& losses, const io::RecordedGame& game) {
  std::string text = fmt::format("{:>4}  {:<5}  {:<6}  {:<6}  {:>6}  {}\n", "step", "snake", "played",
                                 "better", "loss", "team");
  for (const play::Loss& loss : losses) {
    text += fmt::format("{:>4}  {:<5}  {:<6}  {:<6}  {:>6.2f}  {}\n", loss.step, game::letter(loss.snake),
                        game::kDirectionNames[static_cast<std::size_t>(loss.played)],
                        game::kDirectionNames[static_cast<std::size_t>(loss.better)], loss.points(),
                        harmless(game.names[static_cast<std::size_t>(loss.snake / game::kTeamSize)]));
  }
  core::print_result(text);
}

}  // namespace

Action add_replay(CLI::App& command) {
  const auto line = std::make_shared<ReplayArgs>();
  command.add_option("file", line->file, "a game log, or a file of traces, plain or gzip")
      ->option_text("FILE");
  command.add_option("--html", line->html, "write an HTML page to this file")->option_text("FILE");
  command.add_flag("--text", line->text, "play it in the terminal");
  command
      .add_flag("--blunders{10}", line->blunders,
                "list the 10 costliest moves, judged by a search on the exact boards; --blunders=20: 20")
      ->check(CLI::Range(1, game::kMaxSteps * game::kSnakes))
      ->option_text("[=N]");
  command
      .add_option(
          "--judge", line->judge,
          "with --blunders: the Q-network that judges the moves, and its number of simulations for each")
      ->capture_default_str()
      ->option_text("TEAM");
  command.add_option("--game", line->game, "number of the game in the file, from 0 [0]")
      ->check(CLI::Range(std::int64_t{0}, kMostCount))
      ->option_text("N");
  add_number(command, "speed", line->speed, "steps per second with --text", 0.1, 1000.0);
  only_with(command, "--judge", "--blunders");
  only_with(command, "--speed", "--text");
  return [line]() -> int {
    if (line->file.empty()) throw core::UsageError("replay needs a file with a recorded game; see --help");
    if (line->html.empty() && !line->text && line->blunders == 0) {
      throw core::UsageError(
          "replay needs --html OUT, for a page, --text, for the terminal, or --blunders, for a list of "
          "moves");
    }
    refuse_to_replace(line->file, line->html, "--html");
    if (!line->html.empty()) io::check_output(line->html);
    const io::RecordedGame game = io::nth_game(line->file, line->game);
    PageNotes notes{line->file, line->game.value_or(0), {}};
    if (line->blunders > 0) print(*(notes.blunders = blunders_of(*line, game)), game);
    if (!line->html.empty()) {
      const std::string page = replay_page(game, notes);
      io::write_output(line->html, page);
      if (!line->text)
        core::print_result(fmt::format("{}: {}, {} kB; open it in a browser\n", line->html,
                                       core::counted(game.steps.size(), "step"), (page.size() + 999) / 1000));
    }
    if (line->text) show_game(game, line->speed);
    return core::kExitDone;
  };
}

}  // namespace snake_ddp::app
