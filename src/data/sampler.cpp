#include "snake_ddp/data/sampler.hpp"

#include <algorithm>
#include <numeric>

#include "snake_ddp/base/check.hpp"
#include "snake_ddp/base/random.hpp"

namespace snake_ddp::data {

std::vector<std::int64_t> epoch_order(std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  SD_CHECK(n <= std::int64_t{UINT32_MAX}, "too many samples to shuffle");
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  base::RandomStream random(seed, static_cast<std::uint64_t>(epoch), base::Purpose::kShuffle);
  for (std::int64_t i = n - 1; i > 0; --i) {
    const std::uint32_t j = random.below(static_cast<std::uint32_t>(i + 1));
    std::swap(order[static_cast<std::size_t>(i)], order[j]);
  }
  return order;
}

std::int64_t batch_count(std::int64_t n, std::int64_t begin, const Shares& shares) {
  const std::int64_t all = shares.batch * shares.ranks, left = std::max<std::int64_t>(0, n - begin);
  return shares.drop_last ? left / all : (left + all - 1) / all;
}

std::vector<std::int64_t> rank_batch(const std::vector<std::int64_t>& order, std::int64_t begin,
                                     std::int64_t k, const Shares& shares) {
  const auto n = static_cast<std::int64_t>(order.size());
  std::vector<std::int64_t> mine(static_cast<std::size_t>(shares.batch), kNoSample);
  const std::int64_t first = begin + (k * shares.ranks + shares.rank) * shares.batch;
  for (std::int64_t i = 0; i < shares.batch && first + i < n; ++i)
    mine[static_cast<std::size_t>(i)] = order[static_cast<std::size_t>(first + i)];
  return mine;
}

}  // namespace snake_ddp::data
