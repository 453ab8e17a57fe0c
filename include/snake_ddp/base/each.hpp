// One piece of work per index: in a loop on the host, one thread each on a device. A piece is a plain value
// with `SD_HD void operator()(std::int64_t i) const`, so that host tests run every line that the device runs.
#pragma once

#include <cstdint>
#include <functional>

namespace snake_ddp::base {

/// How the host goes through the pieces; null: one after the other. For tests, which put other ways here: in another order,
/// in several threads, written down to be done again.
using HostLoop = std::function<void(std::int64_t count, const std::function<void(std::int64_t)>& work)>;
inline HostLoop host_loop;

template <class Work>
void each_on_host(std::int64_t count, const Work& work) {
  if (host_loop) return host_loop(count, work);
  for (std::int64_t i = 0; i < count; ++i) work(i);
}

#ifdef __CUDACC__
namespace each {
template <class Work>
__global__ void run(std::int64_t count, Work work) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) work(i);
}
}  // namespace each

/// Queues the work on a stream, `block` threads per block.
/// Returns  cudaSuccess, or why it could not be started; errors during the run show at a later call.
template <class Work>
cudaError_t each_on_device(std::int64_t count, const Work& work, cudaStream_t stream, int block) {
  if (count == 0) return cudaSuccess;
  each::run<<<static_cast<unsigned>((count + block - 1) / block), block, 0, stream>>>(count, work);
  return cudaGetLastError();
}
#endif

}  // namespace snake_ddp::base
