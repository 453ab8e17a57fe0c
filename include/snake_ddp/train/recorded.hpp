// Work on a device that is the same each time: recorded once as a CUDA graph, then replayed, so that the host queues one
// thing instead of dozens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace snake_ddp::train {

/// One recording.
class Recording {
 public:
  virtual ~Recording() = default;
  /// What is queued between the two is recorded and not done.
  virtual void begin() = 0;
  virtual void end() = 0;
  virtual void replay() = 0;
};
using MakeRecording = std::function<std::unique_ptr<Recording>()>;

/// A CUDA graph on the current stream of `device`, which must not be the default one.
/// Throws  UsageError in a build without CUDA.
MakeRecording cuda_graphs(at::Device device);

class Recorded {
 public:
  /// The first `warm_up` calls of each kind are done as they are: libraries allocate and choose by them. Without `make`
  /// all calls are.
  /// Follows  PyTorch's and NCCL's advice of 11 calls before a recording.
  explicit Recorded(MakeRecording make, int warm_up = 11) : make_(std::move(make)), warm_up_(warm_up) {}

  /// Does `work`. Its host code runs only where this returns true; where it returns false a recording of an earlier call
  /// with the same `kind` was replayed. So what it queues may differ between calls in the contents of tensors alone.
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
