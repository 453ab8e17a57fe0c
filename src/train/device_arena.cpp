#ifdef SD_HAVE_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include <functional>
#include <optional>

#include "arena.hpp"
#include "snake_ddp/agents/curriculum.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/replay/device_buffer.hpp"
#include "snake_ddp/rollout/fleet.hpp"

namespace snake_ddp::train {
namespace {

// A second stream of a GPU, for work beside the current stream. Without one, all work runs in the order in which it
// is queued, with the same results.
class SideStream {
 public:
#ifdef SD_HAVE_CUDA
  SideStream(at::Device device, bool wanted) {
    if (wanted && device.is_cuda()) stream_ = c10::cuda::getStreamFromPool(false, device.index());
  }

  // Work queued here from now on waits for everything queued on the current stream so far.
  void follow() {
    if (!stream_) return;
    there_.record();
    there_.block(*stream_);
  }

  void run(const std::function<void()>& work) const {
    const c10::cuda::OptionalCUDAStreamGuard here(stream_);
    work();
  }

  // Work queued on the current stream from now on waits for everything queued here so far.
  void join() {
    if (!stream_) return;
    here_.record(*stream_);
    here_.block(c10::cuda::getCurrentCUDAStream(stream_->device_index()));
  }

 private:
  std::optional<c10::cuda::CUDAStream> stream_;
  at::cuda::CUDAEvent here_, there_;
#else
  SideStream(at::Device, bool) {}
  void follow() {}
  void run(const std::function<void()>& work) { work(); }
  void join() {}
#endif
};

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
        side_(parts.device, parts.options.overlaps),
        decided_(parts.record),
        moved_(parts.record),
        drawn_(parts.record),
        learned_(parts.record) {
    fleet_.copy_from(collector_);
    replay_.copy_from(host_replay_, static_cast<std::uint64_t>(updates));
  }

  void decide() override {
    side_.follow();
    side_.run([&] { decided_.run(0, [&] { fleet_.decide(learner_.policy()); }); });
  }

  // After the decision, and beside what was queued for the learner since.
  void move(std::vector<rollout::Episode>& /*ended*/) override {
    side_.run([&] { moved_.run(0, [&] { fleet_.move(); }); });
  }

  void fetch(std::vector<rollout::Episode>& ended) override {
    settle();
    fleet_.fetch(ended);
  }

  // The device counts its draws itself.
  void draw(std::int64_t /*update*/) override {
    side_.join();
    drawn_.run(0, [&] { replay_.sample(batch_size_, seed_, batch_); });
  }

  void learn(const learners::Average& average) override {
    side_.join();  // a decision needs the current weights
    if (!learned_.run(learner_.next_kind(), [&] { learner_.update(batch_, average); }))
      learner_.count_update();
  }

  void settle() override { side_.join(); }

  void save() override {
    settle();
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
  SideStream side_;  // for the boards
  Recorded decided_, moved_, drawn_, learned_;
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
