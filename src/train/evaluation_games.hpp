// The best, the median and the worst game of an evaluation, as game logs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "snake_ddp/play/match.hpp"

namespace snake_ddp::train {

class EvaluationGames {
 public:
  /// Follows the games of a match: sets `options.on_step`. The games are replayed from their moves, so `options.seed`
  ///         and `swap_sides` must be those of the match. Owner: `options` refers to this.
  explicit EvaluationGames(play::MatchOptions& options);

  /// Writes `folder`/best.json, median.json and worst.json, by player a's lead at the end; of equal ones the first.
  /// Creates the folder if missing; without a game nothing is written.
  /// Throws  FileError.
  void write(const std::string& folder, const std::string& a, const std::string& b) const;

 private:
  struct Game {
    std::vector<game::Actions> moves;
    int lead = 0;  // of team A
  };
  [[nodiscard]] bool swapped(std::int64_t number) const { return swap_sides_ && number % 2 == 1; }

  std::uint64_t seed_;
  bool swap_sides_;
  std::map<std::int64_t, Game> games_;
};

}  // namespace snake_ddp::train
