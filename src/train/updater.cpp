#include "updater.hpp"

#include <ATen/ATen.h>

#include <array>
#ifdef SD_HAVE_CUDA
#include <ATen/cuda/CUDAEvent.h>
#endif

namespace snake_ddp::train {

struct Updater::Upload {
  at::Device device;
  std::array<replay::Batch, 2> pinned;
  replay::Batch there;
  std::size_t turn = 0;
#ifdef SD_HAVE_CUDA
  std::array<at::cuda::CUDAEvent, 2> read{};  // the copy from a batch is done
#endif
};

Updater::Updater(learners::Learner& learner, at::Device device, bool record)
    : learner_(learner), recorded_(record ? cuda_graphs(device) : MakeRecording{}) {
  if (device.is_cpu()) return;
  upload_ = std::make_unique<Upload>(Upload{device, {}, {}});
  for (replay::Batch& batch : upload_->pinned) batch.pinned = true;
}

Updater::~Updater() = default;

replay::Batch& Updater::next_batch() {
  if (!upload_) return batch_;
  upload_->turn = 1 - upload_->turn;
#ifdef SD_HAVE_CUDA
  upload_->read.at(upload_->turn).synchronize();  // at once where it was never recorded
#endif
  return upload_->pinned.at(upload_->turn);
}

void Updater::update(const learners::Average& average) {
  const replay::Batch* batch = &batch_;
  if (upload_) {
    const replay::Batch& from = upload_->pinned.at(upload_->turn);
    upload_->there.columns.resize(from.columns.size());
    for (std::size_t c = 0; c < from.columns.size(); ++c) {
      at::Tensor& to = upload_->there.columns[c];
      // The same tensors each time: a recording reads them where they are.
      if (!to.defined() || to.sizes() != from.columns[c].sizes())
        to = at::empty_like(from.columns[c],
                            from.columns[c].options().device(upload_->device).pinned_memory(false));
      to.copy_(from.columns[c], /*non_blocking=*/true);
    }
#ifdef SD_HAVE_CUDA
    upload_->read.at(upload_->turn).record();
#endif
    batch = &upload_->there;
  }
  if (!recorded_.run(learner_.next_kind(), [&] { learner_.update(*batch, average); }))
    learner_.count_update();
}

}  // namespace snake_ddp::train
