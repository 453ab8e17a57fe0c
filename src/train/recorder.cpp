#include "snake_ddp/train/recorder.hpp"

#include <fmt/format.h>

#include "snake_ddp/agents/opponents.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/records/atomic_file.hpp"
#include "snake_ddp/records/folders.hpp"

namespace snake_ddp::train {

Recorder::Recorder(std::string folder, const TrainOptions& options, const rollout::Collector& collector)
    : folder_(std::move(folder)),
      name_(options.algo),
      interval_(options.record_interval),
      model_episode_(options.model_episode),
      written_(collector.episodes_ended() / interval_) {
  const game::State board = collector.boards().front();
  if (board.step() == 1) running_ = records::begin_record(board);  // it started before the recorder
}

void Recorder::see(const rollout::Episode& episode, const game::State& board, const game::Actions* actions,
                   const game::StepResult* result) {
  if (actions == nullptr) {
    running_ = records::begin_record(board);
    return;
  }
  if (!running_) return;
  records::add_step(*running_, *actions, *result, board);
  if (episode.number / interval_ <= written_) return;  // it continues, or needs no log
  written_ = episode.number / interval_;
  running_->names = {name_, std::string(agents::name(episode.opponent))};
  running_->cut_off = !board.done();
  try {
    records::make_own_folder(folder_);
    records::write_file_atomically(
        fmt::format("{}/episode_{}.json", folder_, model_episode_ + episode.number),
        records::game_log_text(*running_));
  } catch (const base::FileError& e) {  // the caller reports it; training continues
    failure_ = e.what();
  }
}

}  // namespace snake_ddp::train
