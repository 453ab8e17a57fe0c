// Runs a functor where its tensors are.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "snake_ddp/base/each.hpp"
#ifdef SD_HAVE_KERNELS
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace snake_ddp::learners {

/// On the CPU at once; on a GPU it is queued on the current stream, if this build has kernels.
template <class Work>
void run_work(at::Device device, std::int64_t count, const Work& work) {
  if (device.is_cpu()) return base::each_on_host(count, work);
#ifdef SD_HAVE_KERNELS
  C10_CUDA_CHECK(static_cast<cudaError_t>(
      launch(work, count, c10::cuda::getCurrentCUDAStream(device.index()).stream())));
#endif
}

}  // namespace snake_ddp::learners
