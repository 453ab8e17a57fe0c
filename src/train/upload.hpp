// Batches on their way to a GPU.
#pragma once

#include <ATen/ATen.h>

#include <array>
#ifdef SD_HAVE_CUDA
#include <ATen/cuda/CUDAEvent.h>
#endif

#include "snake_ddp/replay/buffer.hpp"

namespace snake_ddp::train {

/// Copies batches from pinned memory to a GPU: one is filled while the other is being copied.
class Upload {
 public:
  explicit Upload(at::Device device) : device_(device) {
    for (replay::Batch& batch : pinned_) batch.pinned = true;
  }

  // The next batch to fill. Waits until its last copy is done.
  replay::Batch& next() {
    turn_ = 1 - turn_;
#ifdef SD_HAVE_CUDA
    read_.at(turn_).synchronize();  // returns at once if it was never recorded
#endif
    return pinned_.at(turn_);
  }

  // Queues the copy of the batch that was filled last.
  const replay::Batch& send() {
    const replay::Batch& from = pinned_.at(turn_);
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
  std::array<replay::Batch, 2> pinned_;
  replay::Batch there_;
  std::size_t turn_ = 0;
#ifdef SD_HAVE_CUDA
  std::array<at::cuda::CUDAEvent, 2> read_{};
#endif
};

}  // namespace snake_ddp::train
