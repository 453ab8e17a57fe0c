// Our own kernels: functors that run where their tensors are.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/each.hpp"
#ifdef SD_HAVE_KERNELS
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace snake_ddp::nets {

/// Whether this build has kernels for GPUs: whether CMake found nvcc.
#ifdef SD_HAVE_KERNELS
inline constexpr bool kHaveKernels = true;
#else
inline constexpr bool kHaveKernels = false;
#endif

/// Runs `work` once for each index below `count`: on the CPU at once, see core/each.hpp; on a GPU it is queued on the current
/// stream by the work's own `int launch(const Work&, std::int64_t count, void* stream)`.
/// Owner   the caller keeps the arrays of `work` until the stream has run it.
/// Throws  c10::Error if it could not be queued, Bug for a GPU in a build without kernels.
template <class Work>
void run_work(at::Device device, std::int64_t count, const Work& work) {
  if (device.is_cpu()) return core::each_on_host(count, work);
#ifdef SD_HAVE_KERNELS
  C10_CUDA_CHECK(static_cast<cudaError_t>(
      launch(work, count, c10::cuda::getCurrentCUDAStream(device.index()).stream())));
#else
  SD_CHECK(false, "work on a GPU in a build without kernels");
#endif
}

}  // namespace snake_ddp::nets
