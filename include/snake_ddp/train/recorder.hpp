// Game logs of a training run: from time to time, a game of rank 0's first board.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "snake_ddp/records/game_log.hpp"
#include "snake_ddp/rollout/collector.hpp"
#include "snake_ddp/train/options.hpp"

namespace snake_ddp::train {

class Recorder {
 public:
  Recorder(std::string folder, const TrainOptions& options, const rollout::Collector& collector);

  /// What rollout::CollectorOptions::watch is called with. Of the first game to end once --record_interval
  /// more episodes have ended it writes `folder`/episode_{episode}.json, making `folder` where it is missing; a game that it did not see begin is
  /// passed over.
  void see(const rollout::Episode& episode, const game::State& board, const game::Actions* actions,
           const game::StepResult* result);

  /// Why a game could not be written since the last call; empty if nothing was in the way.
  [[nodiscard]] std::string take_failure() { return std::exchange(failure_, {}); }

 private:
  std::string folder_, name_;
  std::int64_t interval_, model_episode_;
  std::int64_t written_;  // intervals that have had their log
  std::optional<records::RecordedGame> running_;
  std::string failure_;
};

}  // namespace snake_ddp::train
