// Every team against every other, and a rating of each from the results; a result as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "dist/context.hpp"
#include "snake_ddp/play/match.hpp"

namespace snake_ddp::app {

struct LadderOptions {
  std::vector<std::string> teams;  // SPECs as in team.hpp
  std::string anchor;              // the team that gets 0; empty: the mean is 0
  std::int64_t games = 200;        // of each pair
  std::uint64_t seed = 1;
  bool swap_sides = true;
  bool json = false;
  bool mask_fatal = false;  // as team_from_spec has it
  double join_timeout_s = 300;
};

/// Plays all pairs, under torchrun shared over the ranks, and prints a table, best first, or one JSON object. The
/// numbers are the same for any number of ranks.
/// Throws   UsageError for fewer than two teams, one that is listed twice, or an anchor that is none of them;
///          as team_from_spec; DistError.
void play_ladder(const LadderOptions& options);

/// How ranks that share the games of matches join.
dist::Options group_of_matches(double join_timeout_s);

/// {"games", "wins", "draws", "losses", "win_rate", "win_rate_ci95": [low, high], "score_a", "score_b"}, for team a.
nlohmann::ordered_json result_json(const play::MatchResult& result);

/// The last weights of a run's folder against each scripted team and `champion`, an actor's file or empty: played, or taken
/// from the folder's ladder.json if that is of the same weights, games and champion. While the run is still training nothing is
/// played: only a stored ladder is shown, whatever weights it is of.
/// Returns  an object with `rows`, or with `why` there are none.
nlohmann::ordered_json run_ladder(const std::string& folder, const std::string& champion, std::int64_t games,
                                  bool is_running);

}  // namespace snake_ddp::app
