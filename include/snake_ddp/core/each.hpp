// Runs a functor once per index: in a loop on the host, one thread per index on a device. A functor is a plain value
// with `SD_HD void operator()(std::int64_t i) const`, so that host tests run every line that the device runs.
#pragma once

#include <cstdint>
#include <functional>

#include "snake_ddp/core/host_device.hpp"

namespace snake_ddp::core {

/// How many blocks of `per_block` indices a kernel's grid needs to cover `count` indices. 0 if there are
/// none, or if it would need more than kMostBlocks.
inline constexpr std::int64_t kMostBlocks = 2'147'483'647;
constexpr std::int64_t blocks_of(std::int64_t count, std::int64_t per_block) {
  const std::int64_t blocks = (count - 1) / per_block + 1;
  return count > 0 && blocks <= kMostBlocks ? blocks : 0;
}

/// The index at a place of a block. It may need more than 32 bits.
SD_HD constexpr std::int64_t index_at(unsigned block, unsigned per_block, unsigned place) {
  return static_cast<std::int64_t>(block) * per_block + place;
}

/// How the host runs the indices; null: one after the other. Tests set it to run them in another order or in several
/// threads, or to record them and run them again.
using HostLoop = std::function<void(std::int64_t count, const std::function<void(std::int64_t)>& work)>;
inline HostLoop host_loop;

template <class Work>
void each_on_host(std::int64_t count, const Work& work) {
  if (host_loop) return host_loop(count, work);
  for (std::int64_t i = 0; i < count; ++i) work(i);
}

/// Runs functors that use kLanes threads per index, in kPhases phases with a barrier after each. They have
/// `struct Shared`, not initialised, and `SD_HD void operator()(int phase, std::int64_t i, int lane, Shared&) const`.
template <class Work>
requires requires { Work::kLanes; }
void each_on_host(std::int64_t count, const Work& work) {
  each_on_host(count, [work](std::int64_t i) {
    typename Work::Shared shared;
    for (int phase = 0; phase < Work::kPhases; ++phase)
      each_on_host(Work::kLanes, [&](std::int64_t lane) { work(phase, i, static_cast<int>(lane), shared); });
  });
}

#ifdef __CUDACC__
namespace each {
template <class Work>
__global__ void run(std::int64_t count, const __grid_constant__ Work work) {
  const std::int64_t i = index_at(blockIdx.x, blockDim.x, threadIdx.x);
  if (i < count) work(i);
}

// All lanes of an index are in one warp, so a warp barrier is enough.
constexpr int kTogether = 32;
template <class Work>
__global__ void run_together(std::int64_t count, const __grid_constant__ Work work) {
  static_assert(kTogether % Work::kLanes == 0);
  using Shared = typename Work::Shared;
  // As bytes: shared memory has no constructors.
  __shared__ alignas(Shared) unsigned char memory[kTogether / Work::kLanes][sizeof(Shared)];
  const int lane = threadIdx.x % Work::kLanes, piece = threadIdx.x / Work::kLanes;
  const std::int64_t i = index_at(blockIdx.x, kTogether / Work::kLanes, piece);
#pragma unroll
  for (int phase = 0; phase < Work::kPhases; ++phase) {
    if (i < count) work(phase, i, lane, *reinterpret_cast<Shared*>(memory[piece]));
    __syncwarp();
  }
}
}  // namespace each

/// Queues the work on a stream, `block` threads per block.
/// Returns  cudaSuccess, or why it could not be started; a later call reports errors of the run.
template <class Work>
cudaError_t each_on_device(std::int64_t count, const Work& work, cudaStream_t stream, int block) {
  if (count == 0) return cudaSuccess;
  const std::int64_t blocks = blocks_of(count, block);
  if (blocks == 0) return cudaErrorInvalidConfiguration;
  each::run<<<static_cast<unsigned>(blocks), block, 0, stream>>>(count, work);
  return cudaGetLastError();
}

/// Runs functors with several threads per index.
template <class Work>
requires requires { Work::kLanes; }
cudaError_t each_on_device(std::int64_t count, const Work& work, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const std::int64_t blocks = blocks_of(count, each::kTogether / Work::kLanes);
  if (blocks == 0) return cudaErrorInvalidConfiguration;
  each::run_together<<<static_cast<unsigned>(blocks), each::kTogether, 0, stream>>>(count, work);
  return cudaGetLastError();
}
#endif

}  // namespace snake_ddp::core
