// A run's last weights against the scripted teams and the champion.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace snake_ddp::app {

/// Plays it, or takes the result of an earlier call for the same weights, games and champion from the folder's
/// ladder.json. While the run is active nothing is played: only a stored ladder is shown, for whichever weights.
/// Returns  an object with `rows`, or with `why` there are none.
nlohmann::ordered_json run_ladder(const std::string& folder, const std::string& champion, std::int64_t games,
                                  bool is_running);

}  // namespace snake_ddp::app
