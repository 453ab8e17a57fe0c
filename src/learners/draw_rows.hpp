// The choice of a batch's rows.
#pragma once

#include <cstdint>

#include "snake_ddp/core/random.hpp"

namespace snake_ddp::learners {

/// The i-th word of the stream that Buffer::sample reads one after the other.
struct DrawRows {
  std::uint64_t seed;
  const std::int64_t* draw;
  const std::int64_t* size;
  std::int64_t* index;  // [count]

  SD_HD void operator()(std::int64_t i) const {
    const core::RandomBlock block = core::random_block(
        seed, static_cast<std::uint64_t>(*draw), static_cast<std::uint32_t>(i / 4), core::Purpose::kSample);
    index[i] = core::below(block.word[i % 4], static_cast<std::uint32_t>(*size));
  }
};

#ifdef SD_HAVE_KERNELS
/// Queues the work on a CUDA stream. Returns cudaSuccess, or the error.
int launch(const DrawRows& work, std::int64_t count, void* stream);
#endif

}  // namespace snake_ddp::learners
