#include "side_stream.hpp"

#ifdef SD_HAVE_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace snake_ddp::train {

#ifdef SD_HAVE_CUDA
struct SideStream::Stream {
  explicit Stream(c10::DeviceIndex device)
      : stream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)) {}
  c10::cuda::CUDAStream stream;
  at::cuda::CUDAEvent here, there;
};

SideStream::SideStream(at::Device device, bool wanted) {
  if (wanted && device.is_cuda()) stream_ = std::make_unique<Stream>(device.index());
}

void SideStream::follow() {
  if (!stream_) return;
  stream_->there.record();
  stream_->there.block(stream_->stream);
}

void SideStream::run(const std::function<void()>& work) {
  if (!stream_) return work();
  const c10::cuda::CUDAStreamGuard here(stream_->stream);
  work();
}

void SideStream::join() {
  if (!stream_) return;
  stream_->here.record(stream_->stream);
  stream_->here.block(c10::cuda::getCurrentCUDAStream(stream_->stream.device_index()));
}
#else
struct SideStream::Stream {};

SideStream::SideStream(at::Device, bool) {}
void SideStream::follow() {}
void SideStream::run(const std::function<void()>& work) { work(); }
void SideStream::join() {}
#endif

SideStream::~SideStream() = default;

}  // namespace snake_ddp::train
