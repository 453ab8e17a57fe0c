// The way of a batch from main memory into an update, wherever the learner computes.
#pragma once

#include <memory>

#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/replay/buffer.hpp"
#include "snake_ddp/train/recorded.hpp"

namespace snake_ddp::train {

class Updater {
 public:
  /// With `record` updates are recorded as CUDA graphs.
  Updater(learners::Learner& learner, at::Device device, bool record);
  ~Updater();

  /// A batch to be filled. On a GPU its memory is pinned, and there are two of them in turn, so that one is filled while
  /// the other is on its way. Waits until it may be written.
  replay::Batch& next_batch();

  /// Learns from what `next_batch` gave last.
  void update(const learners::Average& average);

 private:
  struct Upload;
  learners::Learner& learner_;
  Recorded recorded_;
  replay::Batch batch_;
  std::unique_ptr<Upload> upload_;  // on a GPU
};

}  // namespace snake_ddp::train
