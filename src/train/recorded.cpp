#include "snake_ddp/train/recorded.hpp"

#include <utility>

#include "snake_ddp/cuda/library.hpp"

namespace snake_ddp::train {

MakeRecording cuda_graphs(at::Device device) {
  return [device] { return cuda::library().make_graph(device); };
}

void Recorded::run(const std::function<void()>& work) {
  if (!make_ || calls_ < warm_up_) {
    ++calls_;
    return work();
  }
  if (recording_ == nullptr) {
    std::unique_ptr<Recording> recording = make_();
    recording->begin();
    work();
    recording->end();
    recording_ = std::move(recording);
  }
  recording_->replay();
}

}  // namespace snake_ddp::train
