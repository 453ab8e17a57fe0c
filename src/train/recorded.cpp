#include "snake_ddp/train/recorded.hpp"

#include <utility>

#include "snake_ddp/cuda/library.hpp"

namespace snake_ddp::train {

MakeRecording cuda_graphs(at::Device device) {
  return [device] { return cuda::library().make_graph(device); };
}

bool Recorded::run(int kind, const std::function<void()>& work) {
  Kind& k = kinds_[kind];
  if (!make_ || k.calls < warm_up_) {
    ++k.calls;
    work();
    return true;
  }
  const bool first = k.recording == nullptr;
  if (first) {
    std::unique_ptr<Recording> recording = make_();
    recording->begin();
    work();
    recording->end();
    k.recording = std::move(recording);
  }
  k.recording->replay();
  return first;
}

}  // namespace snake_ddp::train
