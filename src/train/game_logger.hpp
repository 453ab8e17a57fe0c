// Game logs of a training run: from time to time, one game of rank 0's first board.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "io/game_log.hpp"
#include "rollout/collector.hpp"
#include "train/options.hpp"

namespace snake_ddp::train {

class GameLogger {
 public:
  GameLogger(std::string folder, const TrainOptions& options, const rollout::Collector& collector);

  /// The callback rollout::CollectorOptions::watch. Of each --record_interval episodes it writes one game to
  /// `folder`/episode_{episode}.json, creating `folder` if missing: the first game that ends after them and that it
  /// saw from its start.
  void see(const rollout::Episode& episode, const game::State& board, const game::Actions* actions,
           const game::StepResult* result);

  /// Why a game could not be written since the last call; empty if none failed.
  [[nodiscard]] std::string take_failure() { return std::exchange(failure_, {}); }

 private:
  std::string folder_, name_;
  std::int64_t interval_, model_episode_;
  std::int64_t written_;  // intervals that have their log
  std::optional<io::RecordedGame> running_;
  std::string failure_;
};

}  // namespace snake_ddp::train
