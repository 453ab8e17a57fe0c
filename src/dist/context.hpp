// The process group of a run: joining, collectives with deadlines, and errors that name the missing
// ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dist/gpus.hpp"
#include "dist/world.hpp"
#include "snake_ddp/core/deadline.hpp"

namespace snake_ddp::dist {

struct Options {
  std::string backend = "auto";  // auto, nccl, gloo
  std::string device = "auto";   // auto, cpu, cuda
  std::chrono::milliseconds join_timeout{300'000};
  std::chrono::milliseconds timeout{600'000};
  std::string fingerprint;           // of the build; ranks with different builds are rejected
  std::function<bool()> stopping{};  // whether a stop was requested; joining then ends soon
  bool shared_memory = true;         // with Gloo, ranks of one machine sum floats through it
};

/// What a rank computes on and communicates through.
struct Placement {
  std::string backend;  // "nccl", "gloo", or "none" for a single rank unless NCCL was requested
  at::Device device;
};

/// Resolves both "auto"s. With NCCL or CUDA each rank takes GPU `local_rank` of those it sees, or its
/// only one.
/// Throws      UsageError: an unknown name, CUDA or NCCL is not available (the message says which part is
///             missing), or fewer GPUs than ranks with an NCCL that cannot share them.
Placement choose_placement(const World& world, const Options& options, int gpu_count,
                           const Nccl& nccl = nccl_here());

/// The GPUs that this process can use; 0 in a build without CUDA or without a responding driver.
int visible_gpus();

/// Made by watch_for_stop. Reports, with a short delay, whether any rank got a stop request.
class StopWatch {
 public:
  ~StopWatch();
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

  /// Whether this rank got a stop request, or another rank got one at least half a second ago.
  [[nodiscard]] bool stops() const;

 private:
  friend class DistContext;
  struct State;
  explicit StopWatch(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // shared with its thread
};

/// Membership in the group. With backend "none" there is no group and no store, and every call returns at once.
/// Owner       joins in the constructor, leaves in the destructor; a rank 0 that hosts the store leaves last.
/// Threads     only one thread calls it.
/// Collective  each member function that takes a Deadline: each rank calls it equally often and in the same order.
/// Waits       until the given deadline, then throws and names the ranks that are missing.
/// Throws      DistError, `peer_only` set if this rank merely noticed that another one was lost; the group is
///             unusable then, and every later call also throws.
class DistContext {
 public:
  /// Waits    until all ranks have joined, at most `options.join_timeout`.
  /// Throws   DistError: ranks missing, a rank claimed twice, another world size or build, port taken, master
  ///          unreachable. UsageError: from choose_placement, or two ranks on one GPU with NCCL. Stopped:
  ///          `options.stopping`, and the others did not join within five seconds.
  DistContext(World world, Options options);
  ~DistContext();
  DistContext(const DistContext&) = delete;
  DistContext& operator=(const DistContext&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] int local_size() const;
  [[nodiscard]] bool is_main() const { return rank() == 0; }
  [[nodiscard]] std::string backend() const;                    // "nccl", "gloo" or "none"
  [[nodiscard]] at::Device device() const;                      // where this rank's tensors live
  [[nodiscard]] bool shares_gpus() const;                       // any two ranks, with NCCL
  [[nodiscard]] const std::vector<std::string>& hosts() const;  // of each rank

  /// `options.timeout` from now.
  [[nodiscard]] core::Deadline deadline() const;

  /// Replaces `tensor` by its sum over all ranks: the same bits on each.
  /// Shapes   same length and type on each rank, contiguous; written in place.
  /// Waits    Gloo: for the result. NCCL: not at all, the sum is queued on the current stream (so
  ///          that a CUDA graph can capture it); the group's timeout and the Watchdog end a rank whose peers
  ///          do not arrive.
  void all_reduce_sum(at::Tensor& tensor, core::Deadline deadline);

  /// The sum divided by the number of ranks. Otherwise like all_reduce_sum.
  void all_reduce_mean(at::Tensor& tensor, core::Deadline deadline);

  /// Replaces `tensor` by rank `root`'s. Otherwise like all_reduce_sum.
  void broadcast(at::Tensor& tensor, int root, core::Deadline deadline);

  /// Returns once all ranks have arrived. `where` is used in the error's text.
  void barrier(std::string_view where, core::Deadline deadline);

  /// All ranks' records in rank order on rank 0, an empty list on the others. For small texts; any bytes.
  std::vector<std::string> gather(const std::string& record, core::Deadline deadline);

  /// Returns rank 0's text on all ranks.
  std::string broadcast_text(const std::string& text, core::Deadline deadline);

  /// For long work without collectives. `stopping` reports whether this rank got a stop request, and is also called from
  /// another thread. A store that is lost meanwhile is detected at the next collective.
  [[nodiscard]] StopWatch watch_for_stop(std::function<bool()> stopping);

  /// Compares `value` (or a hash of it) with rank 0's.
  /// Throws   DistError on all ranks if any rank differs; names those ranks, their hosts and values.
  void check_same(std::string_view what, const std::string& value, core::Deadline deadline);

 private:
  struct Group;
  std::unique_ptr<Group> group_;
};

}  // namespace snake_ddp::dist
