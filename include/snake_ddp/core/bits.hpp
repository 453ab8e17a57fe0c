// Bits of a word, on the host and on devices.
#pragma once

#include <cstdint>

#include "snake_ddp/core/host_device.hpp"

namespace snake_ddp::core {

/// How many bits are set.
SD_HD inline int count_bits(std::uint64_t bits) {
#ifdef __CUDA_ARCH__
  return __popcll(static_cast<unsigned long long>(bits));
#else
  return __builtin_popcountll(bits);
#endif
}

/// Index of the lowest set bit; bits != 0.
SD_HD inline int lowest_bit(std::uint64_t bits) {
#ifdef __CUDA_ARCH__
  return __ffsll(static_cast<long long>(bits)) - 1;
#else
  return __builtin_ctzll(bits);
#endif
}

}  // namespace snake_ddp::core
