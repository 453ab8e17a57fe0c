// Where boards are played, transitions stored and updates computed: in main memory, or all on the learner's device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "snake_ddp/agents/plan.hpp"
#include "snake_ddp/learners/average.hpp"
#include "snake_ddp/nets/flat_parameters.hpp"
#include "snake_ddp/replay/buffer.hpp"
#include "snake_ddp/rollout/collector.hpp"
#include "snake_ddp/train/plan.hpp"
#include "snake_ddp/train/recorded.hpp"

namespace snake_ddp::learners {
class Learner;
}

namespace snake_ddp::train {

/// Progress of boards and replay; on a device, as of the last fetch.
struct ArenaCount {
  std::int64_t episodes_ended = 0;
  double epsilon = 0;
  std::int64_t replay_size = 0, replay_appended = 0;
};

class Arena {
 public:
  virtual ~Arena() = default;

  /// One move on every board. Appends the games that ended, if they are known at once.
  virtual void step(std::vector<rollout::Episode>& ended) = 0;
  /// Appends ended games that a device has not reported yet. Waits for it.
  virtual void fetch(std::vector<rollout::Episode>& /*ended*/) {}

  /// The batch of update number `update`, and the update.
  virtual void draw(std::int64_t update) = 0;
  virtual void learn(const learners::Average& average) = 0;

  /// What the updates that are still due of a rollout learn from; empty where they learn from replay, and between rollouts.
  [[nodiscard]] virtual nets::NamedTensors rest() const { return {}; }
  /// Updates the collector and the replay that it was made with: checkpoints store these. Waits for the device.
  virtual void save() {}

  [[nodiscard]] virtual ArenaCount count() const = 0;
  /// Transitions that batches are drawn from: replay's, or the last rollout's.
  [[nodiscard]] virtual std::int64_t pool_size() const { return count().replay_size; }
  /// Empty before the first one.
  [[nodiscard]] virtual const replay::Batch& last_batch() const = 0;
};

/// The parts that an arena works on. Owner: the session.
struct ArenaParts {
  const Plan& options;
  rollout::CollectorOptions collector_options;
  learners::Learner& learner;
  rollout::Collector& collector;
  replay::Buffer& replay;
  at::Device device;
  MakeRecording record;            // of updates; none: they are queued one by one
  const nets::NamedTensors& rest;  // of an arena in which a stop came between the updates of a rollout
};

/// Boards and replay in main memory; batches are copied to the learner's device.
std::unique_ptr<Arena> make_host_arena(const ArenaParts& parts);

/// Boards, replay and learner on one device: the host queues kernels, or recordings of them. On the CPU the same work
/// is done at once. Continues from the collector and the replay, after `updates` updates. `fetch_interval`: at most
/// so many steps between two fetches.
std::unique_ptr<Arena> make_device_arena(const ArenaParts& parts, std::int64_t updates,
                                         std::int64_t fetch_interval);

/// The opponents, in the form that devices read.
/// Throws  UsageError if one of them is not scripted.
agents::OpponentPlan opponent_plan(const Plan& plan, std::uint64_t seed);

}  // namespace snake_ddp::train
