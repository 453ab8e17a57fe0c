// Averages a large flat gradient over ranks while the backward pass still fills it.
// Follows  Li et al., "PyTorch distributed: experiences on accelerating data parallel training", arXiv:2006.15704: buckets
//          in the reverse order of the parameters, each averaged once its last gradient is complete.
#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "snake_ddp/dist/context.hpp"

namespace snake_ddp::dist {

/// Owner       a thread, which ends in the destructor; hooks on the leaves, which must not outlive the reducer's use.
/// Threads     only the thread that calls `context` uses it; between begin() and finish() no other may call `context`.
class Reducer {
 public:
  /// `leaves`: parameters whose gradients are consecutive views of `flat`, in their order. On a GPU, and with
  /// one rank, there are no buckets: finish() averages everything at once.
  Reducer(const std::vector<at::Tensor>& leaves, at::Tensor flat, DistContext& context,
          std::int64_t bucket_bytes);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Before the backward pass.
  void begin();

  /// After the backward pass: waits until every bucket is averaged. A bucket that lacks the gradient of an unreached
  /// parameter is averaged here without it.
  /// Collective  each rank calls it equally often; all average buckets in the same order, whatever a rank's pass reached.
  /// Throws      DistError, like DistContext::all_reduce_mean.
  void finish();

  [[nodiscard]] std::size_t buckets() const { return buckets_.size(); }

 private:
  struct Bucket {
    at::Tensor gradient;       // view of the flat one
    std::int64_t leaves = 0;   // in it
    std::int64_t missing = 0;  // of these, gradients still missing
  };
  struct Hooks;  // on the leaves
  void ready(std::size_t bucket);
  void work();

  at::Tensor flat_;
  DistContext& context_;
  std::vector<Bucket> buckets_;  // in averaging order
  std::unique_ptr<Hooks> hooks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t released_ = 0, averaged_ = 0;  // buckets that may be averaged; that are
  bool running_ = false, stopping_ = false;
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace snake_ddp::dist
