// A recorded game as a page for a browser.
#pragma once

#include <string>

#include "snake_ddp/records/game_log.hpp"

namespace snake_ddp::app {

/// One self-contained HTML file: src/app/replay_page.html with the game's data in it. Nothing of the game is
/// markup: names are data, of which no character can end the element that holds them.
/// Cost  about 40 kB and, a step, what its bodies take: 200 steps stay below 300 kB whatever happens in them.
std::string replay_page(const records::RecordedGame& game);

}  // namespace snake_ddp::app
