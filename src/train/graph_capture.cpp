#include "train/graph_capture.hpp"

#include <utility>

#include "nets/cuda_library.hpp"

namespace snake_ddp::train {

MakeDeviceGraph cuda_graphs(at::Device device) {
  return [device] { return nets::library().make_graph(device); };
}

void GraphCapture::run(const std::function<void()>& work) {
  if (!make_ || calls_ < warm_up_) {
    ++calls_;
    return work();
  }
  if (recording_ == nullptr) {
    std::unique_ptr<DeviceGraph> recording = make_();
    recording->begin();
    work();
    recording->end();
    recording_ = std::move(recording);
  }
  recording_->replay();
}

}  // namespace snake_ddp::train
