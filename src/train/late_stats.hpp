// A learner's numbers on their way to the host: on a GPU nobody waits for them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "snake_ddp/learners/update_stats.hpp"

namespace snake_ddp::learners {
class Learner;
}

namespace snake_ddp::train {

class LateStats {
 public:
  explicit LateStats(at::Device device);
  ~LateStats();

  /// Sends for the numbers of the last update that was queued on the current stream; does nothing while others are still
  /// on their way. On the CPU they are there at once.
  void ask(const learners::Learner& learner);

  /// Those that arrived last; nullptr before the first. Owner: this.
  const learners::UpdateStats* newest();

 private:
  struct Parcel;
  std::unique_ptr<Parcel> parcel_;  // on a GPU
  std::optional<learners::UpdateStats> newest_;
};

}  // namespace snake_ddp::train
