// What the program needs from libtorch_cuda.so. Loading that library costs each rank 0.2 s and 350 MB at
// each start, so the program is not linked with it. libsnake_ddp_cuda.so is, and is loaded only where there
// is a driver.
#pragma once

#include <chrono>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "nets/device_graph.hpp"

namespace snake_ddp::nets {

struct Library {
  /// A CUDA graph on the current stream of `device`, which must not be the default one.
  std::unique_ptr<DeviceGraph> (*make_graph)(at::Device device);
  /// Creates the communicator now, on the current device, rather than in the first operation. Has no deadline of its
  /// own. `timeout` is that of each operation, enforced by NCCL's own thread.
  c10::intrusive_ptr<c10d::Backend> (*connect_nccl)(c10::intrusive_ptr<c10d::Store> store, int rank,
                                                    int ranks, at::Device device,
                                                    std::chrono::milliseconds timeout);
};

/// True where there is a driver and the library could be loaded. Decided before main().
bool is_loaded();

/// Throws  UsageError: not loaded; the message says why.
const Library& library();

}  // namespace snake_ddp::nets
