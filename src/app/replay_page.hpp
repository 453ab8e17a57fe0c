// Pages for a browser: with data, and of a recorded game.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/game_log.hpp"
#include "snake_ddp/play/blunders.hpp"

namespace snake_ddp::app {

/// What the page says besides the game.
struct PageNotes {
  std::string file;         // the game's file, for the command that continues from a step
  std::int64_t number = 0;  // of the game in it
  std::optional<std::vector<play::Loss>> blunders;
};

/// One self-contained HTML file: src/app/replay_page.html with the game's data in it. Nothing of the game is markup:
/// names are data, escaped so that they cannot end their element.
/// Cost  about 50 kB plus the snakes' bodies in each step: 200 steps stay below 300 kB for any game. Explanations add
///       up to 400 bytes per step and team.
std::string replay_page(const io::RecordedGame& game, const PageNotes& notes);

/// The page with `data` in place of the `null` in its element `id`. Nothing in the data is markup.
std::string with_data(std::string_view html, std::string_view id, const nlohmann::ordered_json& data);

}  // namespace snake_ddp::app
