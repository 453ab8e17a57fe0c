// The games of `eval`, recorded: as logs, and as sets of boards for pretraining.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/context.hpp"
#include "io/game_log.hpp"
#include "pretrain/board_set.hpp"
#include "snake_ddp/play/match.hpp"

namespace snake_ddp::app {

/// The games, and where they are recorded; no path: not at all.
struct RecordingOptions {
  std::string team_a, team_b;
  std::int64_t games = 200, seed = 1;
  bool swap_sides = true;
  std::string record;  // folder of the logs
  bool explain = false;
  std::string record_boards;  // file of the boards, of rank 0
  std::int64_t board_interval = 8;
};

/// The teams' names in a game's log and in the picture of its board, team A's first.
std::array<std::string, 2> names_of(const RecordingOptions& options, std::int64_t game);

class Recording {
 public:
  /// Adds the recording to what `match` calls. Each rank writes the logs of its own games, and its own set of boards.
  /// Owner    this must outlive the games of `match`.
  /// Collective.
  /// Throws  UsageError on all ranks if this one would be mixed with games of others, or replace some; FileError.
  Recording(const RecordingOptions& options, play::MatchOptions& match, dist::DistContext& context);

  /// Completes the files, and removes those of an earlier recording under other names.
  /// Collective.
  /// Returns  on rank 0 the logs of all ranks' games that team a lost, in their order.
  /// Throws   FileError; DistError.
  std::vector<std::string> complete(dist::DistContext& context);

 private:
  struct Replaced {
    std::vector<std::string> games;
    pretrain::Recording boards;  // of one rank unless it says more
  };
  [[nodiscard]] Replaced replaced(int ranks) const;
  void remove_replaced(int ranks) const;
  void record_games(play::MatchOptions& match);
  void record_boards(play::MatchOptions& match, int rank, int ranks);

  RecordingOptions options_;
  std::optional<Replaced> replaced_;  // of rank 0
  std::map<std::int64_t, io::RecordedGame> running_;
  std::map<std::int64_t, std::array<play::Reasons, 2>> reasons_;
  std::map<std::int64_t, std::vector<game::State>> boards_of_;
  std::vector<std::int64_t> lost_;
  std::unique_ptr<pretrain::BoardSetWriter> boards_;
};

}  // namespace snake_ddp::app
