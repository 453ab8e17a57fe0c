// Loops over work items on the host in other orders than one after the other: an item may not depend on its neighbours.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "snake_ddp/core/each.hpp"

namespace snake_ddp {

/// The host goes this way while it lives.
struct HostGoes {
  explicit HostGoes(core::HostLoop way) { core::host_loop = std::move(way); }
  HostGoes(const HostGoes&) = delete;
  HostGoes& operator=(const HostGoes&) = delete;
  ~HostGoes() { core::host_loop = {}; }
};

inline void shuffled(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  for (const std::int64_t i : order) work(i);
}

/// As a device goes: through a grid, where each thread runs its index.
inline core::HostLoop in_blocks_of(unsigned per_block) {
  return [per_block](std::int64_t count, const std::function<void(std::int64_t)>& work) {
    const auto blocks = static_cast<unsigned>(core::blocks_of(count, per_block));
    for (unsigned block = 0; block < blocks; ++block) {
      for (unsigned place = 0; place < per_block; ++place) {
        const std::int64_t i = core::index_at(block, per_block, place);
        if (i < count) work(i);
      }
    }
  };
}

/// Four threads, neighbours in different ones: ThreadSanitizer sees what they share.
inline void threaded(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  constexpr std::int64_t kThreads = 4;
  std::vector<std::jthread> threads;
  for (std::int64_t first = 0; first < std::min(kThreads, count); ++first)
    threads.emplace_back([&work, first, count] {
      for (std::int64_t i = first; i < count; i += kThreads) work(i);
    });
}

/// On all cores; neighbouring indices share a core, and with it the cache lines that they write.
inline void on_all_cores(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  constexpr std::int64_t kBlock = 256;
  static const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::int64_t used = std::min(cores, (count + kBlock - 1) / kBlock);
  std::atomic<std::int64_t> next = 0;
  const auto take_blocks = [&] {
    for (std::int64_t begin; (begin = next.fetch_add(kBlock)) < count;)
      for (std::int64_t i = begin; i < std::min(begin + kBlock, count); ++i) work(i);
  };
  std::vector<std::jthread> threads;
  for (std::int64_t k = 1; k < used; ++k) threads.emplace_back(take_blocks);
  take_blocks();  // few pieces, such as the threads of one board, need no second core
}

}  // namespace snake_ddp
