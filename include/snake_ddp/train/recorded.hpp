// Work on a device that is the same in each call: recorded once as a CUDA graph, then replayed, so that the host
// queues one operation instead of dozens.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>

#include "snake_ddp/cuda/recording.hpp"

namespace snake_ddp::train {

using cuda::Recording;
using MakeRecording = std::function<std::unique_ptr<Recording>()>;

/// CUDA graphs on the current stream of `device`, which must not be the default one.
/// Throws  UsageError when a graph is made and LibTorch's library for GPUs is not loaded.
MakeRecording cuda_graphs(at::Device device);

class Recorded {
 public:
  /// The first `warm_up` calls of each kind run normally: libraries allocate and tune during them. Without `make`,
  /// all calls do.
  /// Follows  PyTorch's and NCCL's advice of 11 calls before a recording.
  explicit Recorded(MakeRecording make, int warm_up = 11) : make_(std::move(make)), warm_up_(warm_up) {}

  /// Runs `work`. Returns true if its host code ran, false if an earlier recording with the same `kind` was replayed.
  /// So what it queues may differ between calls only in the contents of tensors.
  bool run(int kind, const std::function<void()>& work);

 private:
  struct Kind {
    int calls = 0;
    std::unique_ptr<Recording> recording;
  };
  MakeRecording make_;
  int warm_up_;
  std::map<int, Kind> kinds_;
};

}  // namespace snake_ddp::train
