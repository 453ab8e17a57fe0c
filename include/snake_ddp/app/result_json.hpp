// A match's result as the JSON of eval and of its ladder.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "snake_ddp/play/match.hpp"

namespace snake_ddp::app {

/// {"games", "wins", "draws", "losses", "win_rate", "win_rate_ci95": [low, high], "score_a", "score_b"}, for team a.
nlohmann::ordered_json result_json(const play::MatchResult& result);

}  // namespace snake_ddp::app
