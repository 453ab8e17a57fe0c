#include <fmt/format.h>

#include <memory>
#include <optional>

#include "snake_ddp/app/board_text.hpp"
#include "snake_ddp/app/command_line.hpp"
#include "snake_ddp/app/replay_page.hpp"
#include "snake_ddp/base/console.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/records/atomic_file.hpp"
#include "snake_ddp/records/game_log.hpp"

namespace snake_ddp::app {
namespace {

struct ReplayLine {
  std::string file, html;
  std::int64_t game = 0;
  bool text = false;
  double speed = 8;
};

records::RecordedGame nth_game(const std::string& file, std::int64_t n) {
  std::optional<records::RecordedGame> wanted;
  std::int64_t count = 0;
  records::read_games(file, [&](const records::RecordedGame& game) {
    if (count++ == n) wanted = game;
  });
  if (!wanted)
    throw base::UsageError(fmt::format("--game {}: {} contains {} game(s), counted from 0", n, file, count));
  return *wanted;
}

}  // namespace

Action add_replay(CLI::App& command) {
  const auto line = std::make_shared<ReplayLine>();
  command.add_option("file", line->file, "a game log, or a file of traces, plain or gzip");
  command.add_option("--html", line->html, "write an HTML page to this file");
  command.add_flag("--text", line->text, "play it in the terminal");
  command.add_option("--game", line->game, "number of the game in the file, from 0")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->capture_default_str();
  command.add_option("--speed", line->speed, "steps per second in the terminal")
      ->check(CLI::Range(0.1, 1000.0))
      ->capture_default_str();
  return [line]() -> int {
    if (line->file.empty()) throw base::UsageError("replay needs a file with a recorded game; see --help");
    if (line->html.empty() && !line->text)
      throw base::UsageError("replay needs --html OUT, for a page, or --text, for the terminal");
    const records::RecordedGame game = nth_game(line->file, line->game);
    if (!line->html.empty()) {
      const std::string page = replay_page(game);
      records::write_file_atomically(line->html, page);
      if (!line->text)
        base::print_result(fmt::format("{}: {} steps, {} kB; open it in a browser\n", line->html,
                                       game.steps.size(), (page.size() + 999) / 1000));
    }
    if (line->text) show_game(game, line->speed);
    return base::kExitDone;
  };
}

}  // namespace snake_ddp::app
