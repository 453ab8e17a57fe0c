#include "snake_ddp/app/result_json.hpp"

#include <nlohmann/json.hpp>

namespace snake_ddp::app {

nlohmann::ordered_json result_json(const play::MatchResult& result) {
  const play::Interval ci = play::wilson_interval(result.wins, result.games);
  return {{"games", result.games},      {"wins", result.wins},           {"draws", result.draws},
          {"losses", result.losses},    {"win_rate", result.win_rate()}, {"win_rate_ci95", {ci.low, ci.high}},
          {"score_a", result.mean_a()}, {"score_b", result.mean_b()}};
}

}  // namespace snake_ddp::app
