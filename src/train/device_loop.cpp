#include "device_loop.hpp"

#include "snake_ddp/agents/curriculum.hpp"

namespace snake_ddp::train {
namespace {

MakeRecording recordings(const TrainOptions& o, at::Device device) {
  return o.cuda_graph == "on" && !device.is_cpu() ? cuda_graphs(device) : MakeRecording{};
}

}  // namespace

agents::OpponentPlan opponent_plan(const TrainOptions& o, std::uint64_t seed) {
  const agents::Mix mix = agents::parse_mix(o.opponent_mix);
  if (!mix.empty()) return agents::plan_of_mix(mix, seed);
  const agents::Curriculum curriculum = agents::parse_curriculum(o.opponent_difficulty_strategy);
  return agents::plan_of_schedule(
      [&](std::int64_t episode) {
        return agents::opponent_at(curriculum, episode, o.max_episodes, o.enable_opponent_evasion,
                                   o.opponent_evasion_start_episode);
      },
      o.max_episodes);
}

DeviceLoop::DeviceLoop(const TrainOptions& o, const rollout::CollectorOptions& collector,
                       learners::Learner& learner, at::Device device, std::int64_t fetch_interval)
    : learner_(learner),
      batch_size_(o.batch_size),
      seed_(collector.seed),
      replay_(rollout::with_boards(learner.columns(), collector.sight), o.buffer_size, device),
      fleet_(collector, opponent_plan(o, collector.seed), replay_, fetch_interval),
      side_(device, o.overlap == "on"),
      decided_(recordings(o, device)),
      moved_(recordings(o, device)),
      drawn_(recordings(o, device)),
      learned_(recordings(o, device)) {}

void DeviceLoop::decide() {
  side_.follow();
  side_.run([&] { decided_.run(0, [&] { fleet_.decide(learner_.policy()); }); });
}

// Behind the decision, and beside what was queued for the learner since.
void DeviceLoop::move() {
  side_.run([&] { moved_.run(0, [&] { fleet_.move(); }); });
}

void DeviceLoop::draw() {
  side_.join();
  drawn_.run(0, [&] { replay_.sample(batch_size_, seed_, batch_); });
}

void DeviceLoop::learn(const learners::Average& average) {
  side_.join();  // a decision needs the weights as they are
  if (!learned_.run(learner_.next_kind(), [&] { learner_.update(batch_, average); })) learner_.count_update();
}

void DeviceLoop::fetch(std::vector<rollout::Episode>& episodes) {
  settle();
  fleet_.fetch(episodes);
}

void DeviceLoop::take_over(const rollout::Collector& collector, const replay::Buffer& replay,
                           std::int64_t updates) {
  fleet_.copy_from(collector);
  replay_.copy_from(replay, static_cast<std::uint64_t>(updates));
}

void DeviceLoop::give_back(rollout::Collector& collector, replay::Buffer& replay) {
  settle();
  fleet_.copy_to(collector);
  replay_.copy_to(replay);
}

}  // namespace snake_ddp::train
