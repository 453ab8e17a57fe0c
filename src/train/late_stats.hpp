// A learner's numbers on their way to the host: on a GPU no thread waits for them.
#pragma once

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

  /// Requests the numbers of the last update queued on the current stream; does nothing while earlier ones are still
  /// on their way. On the CPU they arrive at once.
  void ask(const learners::Learner& learner);

  /// The last numbers that arrived; nullptr before the first. Owner: this.
  const learners::UpdateStats* newest();

 private:
  struct Parcel;
  std::unique_ptr<Parcel> parcel_;  // on a GPU
  std::optional<learners::UpdateStats> newest_;
};

}  // namespace snake_ddp::train
