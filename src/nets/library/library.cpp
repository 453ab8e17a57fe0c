// libsnake_ddp_cuda.so: the code that is linked with libtorch_cuda.so.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "nets/cuda_library.hpp"

namespace snake_ddp::nets {
namespace {

class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(at::Device device) : device_(device) {}
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override {
    if (!is_open_) return;
    try {
      graph_.capture_end();
    } catch (const c10::Error&) {  // the recorded work made it invalid, and its exception says why
    }
  }
  void begin() override {
    c10::cuda::getCurrentCUDAStream(device_.index()).synchronize();
    // Calls of other threads (NCCL's watchdog, checkpoints) may continue meanwhile.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    is_open_ = true;
  }
  void end() override {
    is_open_ = false;
    graph_.capture_end();
  }
  void replay() override { graph_.replay(); }

 private:
  at::Device device_;
  at::cuda::CUDAGraph graph_;
  bool is_open_ = false;
};

std::unique_ptr<DeviceGraph> make_graph(at::Device device) { return std::make_unique<CudaGraph>(device); }

c10::intrusive_ptr<c10d::Backend> connect_nccl(c10::intrusive_ptr<c10d::Store> store, int rank, int ranks,
                                               at::Device device, std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
  options->timeout = timeout;
  options->group_name = "snake_ddp.gradients";
  options->group_desc = "snake_ddp";
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(std::move(store), rank, ranks, options);
  group->setBoundDeviceId(device);
  group->eagerConnectSingleDevice(device);
  return group;
}

}  // namespace
}  // namespace snake_ddp::nets

extern "C" const snake_ddp::nets::Library snake_ddp_cuda_library;
const snake_ddp::nets::Library snake_ddp_cuda_library{snake_ddp::nets::make_graph,
                                                      snake_ddp::nets::connect_nccl};
