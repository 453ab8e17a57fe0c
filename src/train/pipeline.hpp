// Plays, draws and learns: boards and replay in main memory or on the learner's device, batches where the learner is.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#ifdef SD_HAVE_CUDA
#include <ATen/cuda/CUDAEvent.h>
#endif

#include "learners/buffer.hpp"
#include "learners/learner.hpp"
#include "rollout/collector.hpp"
#include "snake_ddp/game/mix.hpp"
#include "train/graph_capture.hpp"
#include "train/plan.hpp"

namespace snake_ddp::learners {
class Learner;
}

namespace snake_ddp::train {

/// Copies batches from pinned memory to a GPU: one is filled while the other is being copied.
class Upload {
 public:
  explicit Upload(at::Device device) : device_(device) {
    for (learners::Batch& batch : pinned_) batch.pinned = true;
  }

  // The next batch to fill. Waits until its last copy is done.
  learners::Batch& next() {
    turn_ = 1 - turn_;
#ifdef SD_HAVE_CUDA
    read_.at(turn_).synchronize();  // returns at once if it was never recorded
#endif
    return pinned_.at(turn_);
  }

  // Queues the copy of the batch that was filled last.
  const learners::Batch& send() {
    const learners::Batch& from = pinned_.at(turn_);
    there_.columns.resize(from.columns.size());
    for (std::size_t c = 0; c < from.columns.size(); ++c) {
      at::Tensor& to = there_.columns[c];
      // The same tensors each time: a recording has their addresses.
      if (!to.defined() || to.sizes() != from.columns[c].sizes())
        to = at::empty_like(from.columns[c], from.columns[c].options().device(device_).pinned_memory(false));
      to.copy_(from.columns[c], /*non_blocking=*/true);
    }
#ifdef SD_HAVE_CUDA
    read_.at(turn_).record();
#endif
    return there_;
  }

 private:
  at::Device device_;
  std::array<learners::Batch, 2> pinned_;
  learners::Batch there_;
  std::size_t turn_ = 0;
#ifdef SD_HAVE_CUDA
  std::array<at::cuda::CUDAEvent, 2> read_{};
#endif
};

/// Progress of boards and replay; on a device, as of the last fetch. With rollouts: the transitions of one, and of all since this
/// start.
struct PipelineCount {
  std::int64_t episodes_ended = 0;
  double epsilon = 0;
  std::int64_t replay_size = 0, replay_appended = 0;
};

/// The parts that a pipeline works on. Owner: the session.
struct PipelineParts {
  const Plan& options;
  std::uint64_t seed;  // rank included
  learners::Learner& learner;
  rollout::Collector& collector;
  learners::Buffer& replay;
  rollout::Rollout* rollout;  // where the boards are; null if the learner has none
  at::Device device;          // the learner's
  MakeDeviceGraph record;     // of its updates, and on its device of boards; none: they are queued one by one
};

class Pipeline {
 public:
  explicit Pipeline(const PipelineParts& parts);

  /// One move on every board. Appends the games that ended, if they are known at once.
  void step(std::vector<rollout::Episode>& ended);
  /// Appends ended games that a device has not reported yet. Waits for it.
  void fetch(std::vector<rollout::Episode>& ended);
  /// Other opponents, as Collector::deal.
  void deal(std::vector<game::Rival> rivals);

  /// The next batch, and the update.
  void draw();
  void learn(const learners::Average& average);

  [[nodiscard]] const PipelineCount& count() const { return count_; }
  /// Empty before the first one.
  [[nodiscard]] const learners::Batch& last_batch() const { return *batch_; }

 private:
  void take_count();

  PipelineParts parts_;
  const Plan& o_;
  learners::Batch plain_;
  std::optional<Upload> upload_;  // to a GPU
  learners::Batch* batch_ = &plain_;
  GraphCapture stepped_, finished_, drawn_, learned_;
  PipelineCount count_;
};

}  // namespace snake_ddp::train
