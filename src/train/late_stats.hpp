// A learner's numbers on their way to the host: on a GPU no thread waits for them.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#ifdef SD_HAVE_CUDA
#include <ATen/cuda/CUDAEvent.h>
#endif

#include "learners/learner.hpp"

namespace snake_ddp::train {

class LateStats {
 public:
  explicit LateStats(at::Device device) : device_(device) {
    if (!device.is_cpu()) measured_ = at::empty({5}, at::TensorOptions(at::kFloat).pinned_memory(true));
  }

  /// Requests the numbers of the last update queued on the current stream; does nothing while earlier ones are still
  /// on their way. On the CPU they arrive at once.
  void ask(const learners::Learner& learner) {
    if (device_.is_cpu()) newest_ = learner.stats();
    if (device_.is_cpu() || under_way_) return;
    measured_.copy_(learner.measured(), /*non_blocking=*/true);
#ifdef SD_HAVE_CUDA
    there_.record();
#endif
    under_way_ = true;
  }

  /// The last numbers that arrived; nullptr before the first. Owner: this.
  const learners::UpdateStats* newest() {
    if (under_way_ && has_arrived()) {
      newest_ = learners::stats_from(measured_);
      under_way_ = false;
    }
    return newest_ ? &*newest_ : nullptr;
  }

 private:
#ifdef SD_HAVE_CUDA
  [[nodiscard]] bool has_arrived() const { return there_.query(); }
  at::cuda::CUDAEvent there_{};
#else
  [[nodiscard]] static bool has_arrived() { return true; }
#endif
  at::Device device_;
  at::Tensor measured_;  // pinned
  bool under_way_ = false;
  std::optional<learners::UpdateStats> newest_;
};

}  // namespace snake_ddp::train
