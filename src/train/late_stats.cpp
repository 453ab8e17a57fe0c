#include "late_stats.hpp"

#include <ATen/ATen.h>
#ifdef SD_HAVE_CUDA
#include <ATen/cuda/CUDAEvent.h>

#include "snake_ddp/learners/learner.hpp"
#endif

namespace snake_ddp::train {

struct LateStats::Parcel {
  at::Tensor measured;  // pinned
  bool under_way = false;
#ifdef SD_HAVE_CUDA
  at::cuda::CUDAEvent there{};
#endif
};

LateStats::LateStats(at::Device device) {
  if (device.is_cpu()) return;
  parcel_ = std::make_unique<Parcel>();
  parcel_->measured = at::empty({5}, at::TensorOptions(at::kFloat).pinned_memory(true));
}

LateStats::~LateStats() = default;

void LateStats::ask(const learners::Learner& learner) {
  if (!parcel_) {
    newest_ = learner.stats();
    return;
  }
  if (parcel_->under_way) return;
  parcel_->measured.copy_(learner.measured(), /*non_blocking=*/true);
#ifdef SD_HAVE_CUDA
  parcel_->there.record();
#endif
  parcel_->under_way = true;
}

const learners::UpdateStats* LateStats::newest() {
  if (parcel_ && parcel_->under_way) {
#ifdef SD_HAVE_CUDA
    if (!parcel_->there.query()) return newest_ ? &*newest_ : nullptr;
#endif
    newest_ = learners::stats_from(parcel_->measured);
    parcel_->under_way = false;
  }
  return newest_ ? &*newest_ : nullptr;
}

}  // namespace snake_ddp::train
