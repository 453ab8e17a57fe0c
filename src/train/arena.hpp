// Where boards are played, transitions kept and updates computed: in main memory, or all on the learner's device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "snake_ddp/agents/plan.hpp"
#include "snake_ddp/learners/average.hpp"
#include "snake_ddp/replay/buffer.hpp"
#include "snake_ddp/rollout/collector.hpp"
#include "snake_ddp/train/plan.hpp"
#include "snake_ddp/train/recorded.hpp"

namespace snake_ddp::learners {
class Learner;
}

namespace snake_ddp::train {

/// How far the boards and replay are; on a device as of the last fetch.
struct ArenaCount {
  std::int64_t episodes_ended = 0;
  double epsilon = 0;
  std::int64_t replay_size = 0, replay_appended = 0;
};

class Arena {
 public:
  virtual ~Arena() = default;

  /// One move on every board: what both teams answer, then the move. The learner may learn in between; with --overlap a GPU
  /// does both at once. Games that ended are appended where they are known at once.
  virtual void decide() = 0;
  virtual void move(std::vector<rollout::Episode>& ended) = 0;
  /// Appends ended games that a device has yet to report. Waits for it.
  virtual void fetch(std::vector<rollout::Episode>& /*ended*/) {}

  /// The batch of update number `update`, and the update.
  virtual void draw(std::int64_t update) = 0;
  virtual void learn(const learners::Average& average) = 0;

  /// What is queued after this waits for all moves so far.
  virtual void settle() {}
  /// Brings the collector and the replay that it was made with up to date: checkpoints hold these. Waits for the device.
  virtual void save() {}

  [[nodiscard]] virtual ArenaCount count() const = 0;
  /// Transitions that batches are drawn from: replay's, or the last rollout's.
  [[nodiscard]] virtual std::int64_t pool_size() const { return count().replay_size; }
  /// Empty before the first one.
  [[nodiscard]] virtual const replay::Batch& last_batch() const = 0;
};

/// What an arena works on. Owner: the session.
struct ArenaParts {
  const Plan& options;
  rollout::CollectorOptions collector_options;
  learners::Learner& learner;
  rollout::Collector& collector;
  replay::Buffer& replay;
  at::Device device;
  MakeRecording record;  // of updates; none: they are queued one by one
};

/// Boards and replay in main memory; batches travel to the learner's device.
std::unique_ptr<Arena> make_host_arena(const ArenaParts& parts);

/// Boards, replay and learner on one device: the host queues kernels, or recordings of them. On the CPU the same work is
/// done at once. Goes on from the collector and the replay, after `updates` updates. `fetch_interval`: steps between two
/// fetches at most.
std::unique_ptr<Arena> make_device_arena(const ArenaParts& parts, std::int64_t updates,
                                         std::int64_t fetch_interval);

/// The opponents, in the form that devices read.
/// Throws  UsageError where one of them is not scripted.
agents::OpponentPlan opponent_plan(const Plan& plan, std::uint64_t seed);

}  // namespace snake_ddp::train
