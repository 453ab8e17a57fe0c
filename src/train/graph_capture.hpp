// Work on a device that is the same in each call: recorded once as a CUDA graph, then replayed, so that the host
// queues one operation instead of dozens.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "nets/device_graph.hpp"

namespace snake_ddp::train {

using nets::DeviceGraph;
using MakeDeviceGraph = std::function<std::unique_ptr<DeviceGraph>()>;

/// CUDA graphs on the current stream of `device`, which must not be the default one.
/// Throws  UsageError when a graph is made and LibTorch's library for GPUs is not loaded.
MakeDeviceGraph cuda_graphs(at::Device device);

class GraphCapture {
 public:
  /// The first `warm_up` calls run normally: libraries allocate and tune during them. Without `make`, all calls do.
  /// Follows  PyTorch's and NCCL's advice of 11 calls before a recording.
  explicit GraphCapture(MakeDeviceGraph make, int warm_up = 11) : make_(std::move(make)), warm_up_(warm_up) {}

  /// Runs `work`, or replays its recording. So what it queues may differ between calls only in the contents of tensors.
  void run(const std::function<void()>& work);

 private:
  MakeDeviceGraph make_;
  int warm_up_, calls_ = 0;
  std::unique_ptr<DeviceGraph> recording_;
};

}  // namespace snake_ddp::train
