// A second stream of a device, for work that may be done while the current stream does other work. Without one, and on
// the CPU, everything is done in the order in which it is queued, which gives the same results.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace snake_ddp::train {

class SideStream {
 public:
  /// Without `wanted`, and on the CPU, there is none.
  SideStream(at::Device device, bool wanted);
  ~SideStream();

  /// What is queued here from now on waits for all that the current stream was given so far.
  void follow();
  /// Queues `work` here.
  void run(const std::function<void()>& work);
  /// What the current stream is given from now on waits for all that was queued here so far.
  void join();

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

}  // namespace snake_ddp::train
