// A run's last weights against the scripted teams and the champion.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace snake_ddp::app {

/// Plays it, or takes what an earlier call left in the folder's ladder.json for the same weights, games and champion.
/// While the run is still training nothing is played: only a stored ladder is shown, whatever weights it is of.
/// Returns  an object with `rows`, or with `why` there are none.
nlohmann::ordered_json run_ladder(const std::string& folder, const std::string& champion, std::int64_t games,
                                  bool is_running);

}  // namespace snake_ddp::app
