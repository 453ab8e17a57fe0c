// Vectors of floats that begin at a cache line. A load of 64 bytes that crosses two lines takes twice the time.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace snake_ddp::core {

inline constexpr std::size_t kCacheLine = 64;

/// std::allocator, but for where the memory begins.
template <class T>
struct LineAllocator {
  using value_type = T;

  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>& /*other*/) {}

  static T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{kCacheLine}));
  }
  static void deallocate(T* memory, std::size_t /*count*/) {
    ::operator delete (memory, std::align_val_t{kCacheLine});
  }
  template <class U>
  bool operator==(const LineAllocator<U>& /*other*/) const {
    return true;
  }
};

using AlignedFloats = std::vector<float, LineAllocator<float>>;

}  // namespace snake_ddp::core
