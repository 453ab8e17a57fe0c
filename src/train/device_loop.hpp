// Playing, replay and learning on one device: the host queues kernels, or recordings of them, and is told how games
// ended when it asks. On the CPU the same pieces of work run at once.
#pragma once

#include <cstdint>
#include <vector>

#include "side_stream.hpp"
#include "snake_ddp/agents/plan.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/replay/device_buffer.hpp"
#include "snake_ddp/rollout/fleet.hpp"
#include "snake_ddp/train/options.hpp"
#include "snake_ddp/train/recorded.hpp"

namespace snake_ddp::train {

/// Who team B is, as devices read it.
/// Throws  UsageError where somebody who is not scripted may play.
agents::OpponentPlan opponent_plan(const TrainOptions& options, std::uint64_t seed);

class DeviceLoop {
 public:
  /// `collector` has the options of the run's collector. `fetch_interval`: steps between two fetches at most.
  DeviceLoop(const TrainOptions& options, const rollout::CollectorOptions& collector,
             learners::Learner& learner, at::Device device, std::int64_t fetch_interval);

  /// One move on every board: what the policy answers, then the move. The policy may learn between; with --overlap the
  /// device then does both at once.
  void decide();
  void move();
  /// A batch, from all that moves stored so far, and an update with it.
  void draw();
  void learn(const learners::Average& average);
  /// As Fleet::fetch.
  void fetch(std::vector<rollout::Episode>& episodes);
  /// What is queued after this waits for all moves so far, too.
  void settle() { side_.join(); }

  [[nodiscard]] const rollout::Fleet& fleet() const { return fleet_; }
  [[nodiscard]] const replay::Batch& last_batch() const { return batch_; }

  /// Goes on from `collector` and `replay` after so many updates.
  void take_over(const rollout::Collector& collector, const replay::Buffer& replay, std::int64_t updates);
  /// Makes both as this loop is now. Waits for the device.
  void give_back(rollout::Collector& collector, replay::Buffer& replay);

 private:
  learners::Learner& learner_;
  std::int64_t batch_size_;
  std::uint64_t seed_;
  replay::DeviceBuffer replay_;
  rollout::Fleet fleet_;
  replay::Batch batch_;
  SideStream side_;  // of the boards
  Recorded decided_, moved_, drawn_, learned_;
};

}  // namespace snake_ddp::train
