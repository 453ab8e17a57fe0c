// Batches of a set of boards, prepared ahead by threads, in the same order for any number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "pretrain/board_set.hpp"

namespace snake_ddp::pretrain {

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

/// What a sample contains besides its board. Draws are functions of seed, epoch and the board's number.
struct SampleOptions {
  std::uint64_t seed = 1;
  std::int64_t epoch = 0;
  double mask_ratio = 0;         // share of the six snakes that is masked, at least one; 0: none
  std::int64_t view_radius = 0;  // above 0: the view of one of the six; the snakes outside it are masked
  bool also_unhidden = false;    // with a view: one sample in seven is the whole board
};

struct Batch {
  at::Tensor seen;    // [B, 6, nodes, features] float32, as in game::write_graphs, as far as they are visible
  at::Tensor whole;   // the same, with everything visible; undefined without a view
  at::Tensor masked;  // [B, 6] float32: 1 for the snakes to predict
  at::Tensor hidden;  // [B, 6] float32: 1 for snakes that are not visible, or not on the board
  at::Tensor weight;  // [B] float32: 1, or 0 for a position without a sample, whose other values are zeros
};

/// Queued there.
Batch on_device(Batch batch, at::Device device);

/// Builds one batch.
/// Shapes  rows [B]: board numbers or kNoSample.
Batch make_batch(const BoardSet& set, const std::vector<std::int64_t>& rows, const SampleOptions& options,
                 bool pinned);

struct LoaderOptions {
  int threads = 0;   // 0: batches are built on demand
  int prefetch = 4;  // batches prepared ahead
  bool pinned = false;
};

/// Owner    its threads, which end in the destructor. `set` must outlive it.
/// Threads  only one thread takes batches.
class Loader {
 public:
  /// `rows(k)`: the board numbers of batch k, 0 <= k < count; called from any thread.
  Loader(const BoardSet& set, std::int64_t count, std::function<std::vector<std::int64_t>(std::int64_t)> rows,
         SampleOptions sample, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch; `count` of them.
  /// Throws  any exception of a thread.
  Batch next();

 private:
  void work();
  void stop();
  const BoardSet& set_;
  const std::int64_t count_;
  const std::function<std::vector<std::int64_t>(std::int64_t)> rows_;
  const SampleOptions sample_;
  const LoaderOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Batch> ready_;
  std::exception_ptr failure_;
  std::int64_t begun_ = 0, given_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace snake_ddp::pretrain
