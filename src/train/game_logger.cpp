#include "train/game_logger.hpp"

#include <fmt/format.h>

#include "io/atomic_file.hpp"
#include "io/folders.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/opponents.hpp"

namespace snake_ddp::train {

GameLogger::GameLogger(std::string folder, const TrainOptions& options, const rollout::Collector& collector)
    : folder_(std::move(folder)),
      name_(options.algo),
      interval_(options.record_interval),
      model_episode_(options.model_episode),
      written_(collector.episodes_ended() / interval_) {
  const game::State board = collector.boards().front();
  if (board.step() == 1) running_ = io::begin_record(board);  // it started before the recorder
}

void GameLogger::see(const rollout::Episode& episode, const game::State& board, const game::Actions* actions,
                     const game::StepResult* result) {
  if (actions == nullptr) {
    running_ = io::begin_record(board);
    return;
  }
  if (!running_) return;
  io::add_step(*running_, *actions, *result, board);
  if (episode.number / interval_ <= written_) return;  // it continues, or needs no log
  written_ = episode.number / interval_;
  running_->names = {name_, std::string(game::name(episode.opponent))};
  running_->cut_off = !board.done();
  try {
    io::make_own_folder(folder_);
    io::write_file_atomically(fmt::format("{}/episode_{}.json", folder_, model_episode_ + episode.number),
                              io::game_log_text(*running_));
  } catch (const core::FileError& e) {  // the caller reports it; training continues
    failure_ = e.what();
  }
}

}  // namespace snake_ddp::train
