#include "pipeline.hpp"

#include "learners/learner.hpp"

namespace snake_ddp::train {

Pipeline::Pipeline(const PipelineParts& parts)
    : parts_(parts),
      o_(parts.options),
      stepped_(o_.on_device ? parts.record : MakeDeviceGraph{}),
      finished_(o_.on_device ? parts.record : MakeDeviceGraph{}),
      drawn_(o_.on_device ? parts.record : MakeDeviceGraph{}),
      learned_(parts.record) {
  if (!o_.on_device && !parts.device.is_cpu()) upload_.emplace(parts.device);
  take_count();
}

void Pipeline::take_count() {
  const rollout::Rollout* const rollout = parts_.rollout;
  count_ = {parts_.collector.episodes_ended(), parts_.collector.epsilon(),
            rollout != nullptr ? rollout->rows() : parts_.replay.size(),
            rollout != nullptr ? rollout->appended() : parts_.replay.appended()};
}

void Pipeline::step(std::vector<rollout::Episode>& ended) {
  stepped_.run([&] { parts_.collector.step(parts_.learner.policy()); });
  if (parts_.rollout != nullptr) parts_.rollout->stepped();
  if (!o_.on_device) fetch(ended);
}

void Pipeline::fetch(std::vector<rollout::Episode>& ended) {
  parts_.collector.fetch(ended);
  take_count();
}

void Pipeline::deal(std::vector<game::Rival> rivals) {
  // Its shapes may be new; libraries have been tuned before.
  if (parts_.collector.deal(std::move(rivals)) && o_.on_device) stepped_ = GraphCapture(parts_.record, 1);
}

void Pipeline::draw() {
  batch_ = upload_ ? &upload_->next() : &plain_;
  switch (o_.learner.feed) {
    case learners::Feed::kReplay:
      return drawn_.run([&] { parts_.replay.sample(o_.batch_size, parts_.seed, *batch_); });
    case learners::Feed::kWindows:
      return parts_.replay.sample_windows(o_.batch_size / o_.sequence_length, o_.sequence_length, parts_.seed,
                                          *batch_);
    case learners::Feed::kRollout:
      if (parts_.rollout->is_due()) finished_.run([&] { parts_.collector.finish(parts_.learner.policy()); });
      drawn_.run([&] { parts_.rollout->take(*batch_); });
      parts_.rollout->took();
  }
}

void Pipeline::learn(const learners::Average& average) {
  const learners::Batch& batch = upload_ ? upload_->send() : plain_;
  learned_.run([&] { parts_.learner.update(batch, average); });
}

}  // namespace snake_ddp::train
