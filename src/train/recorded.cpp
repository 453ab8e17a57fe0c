#include "snake_ddp/train/recorded.hpp"

#include "snake_ddp/base/error.hpp"
#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDAStream.h>

#include "snake_ddp/cuda/library.hpp"
#endif

namespace snake_ddp::train {

#ifdef SD_HAVE_CUDA
namespace {

class CudaGraph final : public Recording {
 public:
  explicit CudaGraph(at::Device device) : device_(device) {}
  void begin() override {
    c10::cuda::getCurrentCUDAStream(device_.index()).synchronize();
    graph_->begin();
  }
  void end() override { graph_->end(); }
  void replay() override { graph_->replay(); }

 private:
  at::Device device_;
  std::unique_ptr<cuda::Graph> graph_ = cuda::library().make_graph();
};

}  // namespace

MakeRecording cuda_graphs(at::Device device) {
  return [device] { return std::make_unique<CudaGraph>(device); };
}
#else
MakeRecording cuda_graphs(at::Device) {
  throw base::UsageError(
      "--cuda_graph on, but this build has no CUDA: the PyTorch it was built with is for CPUs");
}
#endif

bool Recorded::run(int kind, const std::function<void()>& work) {
  Kind& k = kinds_[kind];
  if (!make_ || k.calls < warm_up_) {
    ++k.calls;
    work();
    return true;
  }
  const bool first = k.recording == nullptr;
  if (first) {
    k.recording = make_();
    k.recording->begin();
    work();
    k.recording->end();
  }
  k.recording->replay();
  return first;
}

}  // namespace snake_ddp::train
