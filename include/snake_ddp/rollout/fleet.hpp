// Many boards on one device, stepped by kernels: the same games as the collector's, bit for bit, for scripted
// opponents. Transitions go into replay on that device; the host queues work and fetches finished games on request.
// On the CPU the same functors run in a loop.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "snake_ddp/agents/plan.hpp"
#include "snake_ddp/nets/flat_parameters.hpp"
#include "snake_ddp/nets/policy.hpp"
#include "snake_ddp/replay/device_buffer.hpp"
#include "snake_ddp/rollout/collector.hpp"

namespace snake_ddp::rollout {

class Fleet {
 public:
  /// Starts games like a collector with the same options; `opponent`, `watch`, `self_play` and `frozen` are ignored.
  /// `replay` has a collector's columns, and must outlive the fleet. `fetch_interval`: maximum number of steps between fetches.
  /// Throws  UsageError if replay is smaller than what one step may store.
  Fleet(const CollectorOptions& options, const agents::OpponentPlan& opponents, replay::DeviceBuffer& replay,
        std::int64_t fetch_interval);

  /// Queues one move on every board; finished boards start a new game. The policy's outputs are copied to the
  /// device if necessary.
  void step(nets::Policy& policy);

  /// Appends the games that ended since the last call to `episodes`, in order. Waits for the device.
  void fetch(std::vector<Episode>& episodes);

  // As of the last fetch.
  [[nodiscard]] std::int64_t episodes_ended() const { return fetched_; }
  [[nodiscard]] double epsilon() const { return epsilon_; }
  /// Rows in replay, and rows ever appended.
  [[nodiscard]] std::int64_t replay_size() const { return replay_size_; }
  [[nodiscard]] std::int64_t replay_appended() const { return replay_appended_; }

  /// Copies this fleet into `collector`, which has the same options and continues the same games. Waits for the device.
  void copy_to(Collector& collector) const;
  /// Copies `collector` into this; all its games must be against scripted opponents.
  void copy_from(const Collector& collector);

  /// The observations of the boards, [num_envs, 3, features + 1].
  [[nodiscard]] const at::Tensor& observations() const { return observations_; }

 private:
  template <class Work>
  void run(std::int64_t count) const;
  [[nodiscard]] const at::Tensor& tensor(const std::string& name) const;
  void look();

  CollectorOptions options_;
  agents::OpponentPlan opponents_;
  replay::DeviceBuffer& replay_;
  at::Device device_;
  nets::NamedTensors state_;  // a collector's, on the device
  at::Tensor place_, counts_, sums_, records_, record_epsilon_, observations_, values_, rivals_;
  std::int64_t sources_[play::kSources];  // the index of each in replay's columns, -1 if there is none
  bool stores_boards_ = false, best_ = false, territory_ = false;
  std::int64_t fetched_ = 0, replay_size_ = 0, replay_appended_ = 0;
  double epsilon_;
};

/// Boards played with random moves and restarted at their end, for benchmarks: each call is one step of all.
class Wanderers {
 public:
  /// With `sight` team A's observation is written after each step.
  Wanderers(std::int64_t boards, std::uint64_t seed, const play::Sight* sight, at::Device device);
  void step();
  /// [boards, 256] bytes, and [boards, 3, features + 1] or undefined.
  [[nodiscard]] const at::Tensor& boards() const { return boards_; }
  [[nodiscard]] const at::Tensor& observations() const { return observations_; }

 private:
  play::Sight sight_;
  std::uint64_t seed_;
  at::Tensor boards_, games_, observations_;
};

}  // namespace snake_ddp::rollout
