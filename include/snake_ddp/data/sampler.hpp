// Which rank learns from which sample, and when: functions of seed and epoch only.
#pragma once

#include <cstdint>
#include <vector>

namespace snake_ddp::data {

/// Marks a position in a batch without a sample.
inline constexpr std::int64_t kNoSample = -1;

/// 0..n-1 in the order of this epoch: a Fisher-Yates shuffle.
std::vector<std::int64_t> epoch_order(std::int64_t n, std::uint64_t seed, std::int64_t epoch);

/// How a sequence of samples is divided: into batches of all ranks, each divided into the ranks' parts,
/// so that one rank with a batch of `batch` x `ranks` gets the same samples in the same updates.
struct Shares {
  int rank = 0;
  int ranks = 1;
  std::int64_t batch = 1;  // per rank
  bool drop_last =
      false;  // what to do with samples that do not fill a batch of all ranks: drop them, or pad with kNoSample
};

/// Batches of all ranks from position `begin` of n samples on: equally many on each rank.
std::int64_t batch_count(std::int64_t n, std::int64_t begin, const Shares& shares);

/// This rank's part of batch number `k` from position `begin` on.
/// Shapes  returns [shares.batch], elements of `order` or kNoSample.
std::vector<std::int64_t> rank_batch(const std::vector<std::int64_t>& order, std::int64_t begin,
                                     std::int64_t k, const Shares& shares);

}  // namespace snake_ddp::data
