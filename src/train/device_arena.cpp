#include "arena.hpp"
#include "snake_ddp/agents/curriculum.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/replay/device_buffer.hpp"
#include "snake_ddp/rollout/fleet.hpp"

namespace snake_ddp::train {
namespace {

class DeviceArena final : public Arena {
 public:
  DeviceArena(const ArenaParts& parts, std::int64_t updates, std::int64_t fetch_interval)
      : learner_(parts.learner),
        collector_(parts.collector),
        host_replay_(parts.replay),
        batch_size_(parts.options.batch_size),
        seed_(parts.collector_options.seed),
        replay_(rollout::with_boards(learner_.columns(), parts.collector_options.sight),
                parts.options.buffer_size, parts.device),
        fleet_(parts.collector_options, opponent_plan(parts.options, seed_), replay_, fetch_interval),
        stepped_(parts.record),
        drawn_(parts.record),
        learned_(parts.record) {
    fleet_.copy_from(collector_);
    replay_.copy_from(host_replay_, static_cast<std::uint64_t>(updates));
  }

  void step(std::vector<rollout::Episode>& /*ended*/) override {
    stepped_.run([&] { fleet_.step(learner_.policy()); });
  }

  void fetch(std::vector<rollout::Episode>& ended) override { fleet_.fetch(ended); }

  // The device counts its draws itself.
  void draw(std::int64_t /*update*/) override {
    drawn_.run([&] { replay_.sample(batch_size_, seed_, batch_); });
  }

  void learn(const learners::Average& average) override {
    learned_.run([&] { learner_.update(batch_, average); });
  }

  void save() override {
    fleet_.copy_to(collector_);
    replay_.copy_to(host_replay_);
  }

  [[nodiscard]] ArenaCount count() const override {
    return {fleet_.episodes_ended(), fleet_.epsilon(), fleet_.replay_size(), fleet_.replay_appended()};
  }
  [[nodiscard]] const replay::Batch& last_batch() const override { return batch_; }

 private:
  learners::Learner& learner_;
  rollout::Collector& collector_;
  replay::Buffer& host_replay_;
  std::int64_t batch_size_;
  std::uint64_t seed_;
  replay::DeviceBuffer replay_;
  rollout::Fleet fleet_;
  replay::Batch batch_;
  Recorded stepped_, drawn_, learned_;
};

}  // namespace

agents::OpponentPlan opponent_plan(const Plan& o, std::uint64_t seed) {
  if (!o.mix.empty()) return agents::plan_of_mix(o.mix, seed);
  return agents::plan_of_schedule(
      [&](std::int64_t episode) {
        return agents::opponent_at(o.curriculum, episode, o.max_episodes, o.enable_opponent_evasion,
                                   o.opponent_evasion_start_episode);
      },
      o.max_episodes);
}

std::unique_ptr<Arena> make_device_arena(const ArenaParts& parts, std::int64_t updates,
                                         std::int64_t fetch_interval) {
  return std::make_unique<DeviceArena>(parts, updates, fetch_interval);
}

}  // namespace snake_ddp::train
