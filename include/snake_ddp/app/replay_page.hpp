// A recorded game as a page for a browser.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "snake_ddp/records/game_log.hpp"
#include "snake_ddp/search/blunders.hpp"

namespace snake_ddp::app {

/// What the page says beside the game.
struct PageNotes {
  std::string file;         // where the game is, for the command that goes on from a step
  std::int64_t number = 0;  // of the game in it
  std::optional<std::vector<search::Loss>> blunders;
};

/// One self-contained HTML file: src/app/replay_page.html with the game's data in it. Nothing of the game is
/// markup: names are data, of which no character can end the element that holds them.
/// Cost  about 50 kB and, a step, what its bodies take: 200 steps stay below 300 kB whatever happens in them. Explanations add
///       up to 400 bytes a step and team.
std::string replay_page(const records::RecordedGame& game, const PageNotes& notes);

}  // namespace snake_ddp::app
