// Bytes at multiples of 16, which a device copies sixteen at a time instead of one by one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "snake_ddp/core/host_device.hpp"

namespace snake_ddp::core {

template <std::size_t kBytes>
struct alignas(16) Chunk {
  std::uint8_t byte[kBytes];
};

/// The k-th `kBytes` bytes from `begin` on.
template <std::size_t kBytes>
SD_HD inline Chunk<kBytes>& chunk(void* begin, int k = 0) {
  return static_cast<Chunk<kBytes>*>(begin)[k];
}
template <std::size_t kBytes>
SD_HD inline const Chunk<kBytes>& chunk(const void* begin, int k = 0) {
  return static_cast<const Chunk<kBytes>*>(begin)[k];
}

}  // namespace snake_ddp::core
