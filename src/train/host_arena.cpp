#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>
#ifdef SD_HAVE_CUDA
#include <ATen/cuda/CUDAEvent.h>
#endif

#include "arena.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/random.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/train/plan.hpp"

namespace snake_ddp::train {
namespace {

// Copies batches from pinned memory to a GPU: one is filled while the other is being copied.
class Upload {
 public:
  explicit Upload(at::Device device) : device_(device) {
    for (replay::Batch& batch : pinned_) batch.pinned = true;
  }

  // The next batch to fill. Waits until its last copy is done.
  replay::Batch& next() {
    turn_ = 1 - turn_;
#ifdef SD_HAVE_CUDA
    read_.at(turn_).synchronize();  // returns at once if it was never recorded
#endif
    return pinned_.at(turn_);
  }

  // Queues the copy of the batch that was filled last.
  const replay::Batch& send() {
    const replay::Batch& from = pinned_.at(turn_);
    there_.columns.resize(from.columns.size());
    for (std::size_t c = 0; c < from.columns.size(); ++c) {
      at::Tensor& to = there_.columns[c];
      // The same tensors each time: a recording has their addresses.
      if (!to.defined() || to.sizes() != from.columns[c].sizes())
        to = at::empty_like(from.columns[c], from.columns[c].options().device(device_).pinned_memory(false));
      to.copy_(from.columns[c], /*non_blocking=*/true);
    }
#ifdef SD_HAVE_CUDA
    read_.at(turn_).record();
#endif
    return there_;
  }

 private:
  at::Device device_;
  std::array<replay::Batch, 2> pinned_;
  replay::Batch there_;
  std::size_t turn_ = 0;
#ifdef SD_HAVE_CUDA
  std::array<at::cuda::CUDAEvent, 2> read_{};
#endif
};

// A rollout: all transitions since the last one, shuffled for each epoch and cut into equally many batches on every
// rank.
class Rollout {
 public:
  Rollout(const Plan& o, std::uint64_t seed)
      : epochs_(o.rollout_epochs), batches_(rollout_batches(o)), seed_(seed) {}

  void next_batch(std::int64_t update, replay::Buffer& replay, learners::Learner& learner,
                  replay::Batch& batch) {
    if (taken_ == 0) {
      rows_ = replay.size();
      learner.prepare(replay, all_);
      replay.restart(0, replay.appended());
      order_ = at::arange(rows_, at::kLong);
    }
    const std::int64_t b = taken_ % batches_;
    if (b == 0) shuffle(static_cast<std::uint64_t>(update));
    const std::int64_t first = rows_ * b / batches_, end = rows_ * (b + 1) / batches_;
    batch.columns.clear();
    for (const at::Tensor& column : all_.columns)
      batch.columns.push_back(column.index_select(0, order_.narrow(0, first, end - first)));
    taken_ = (taken_ + 1) % (epochs_ * batches_);
  }

  [[nodiscard]] std::int64_t rows() const { return rows_; }

  [[nodiscard]] nets::NamedTensors state() const {
    if (taken_ == 0) return {};
    nets::NamedTensors state = {{"taken", at::scalar_tensor(taken_, at::kLong)}, {"order", order_.clone()}};
    for (std::size_t c = 0; c < all_.columns.size(); ++c)
      state.emplace_back(fmt::format("column.{}", c), all_.columns[c].to(at::kCPU));
    return state;
  }

  void restore(const nets::NamedTensors& state, const std::vector<replay::Column>& columns) {
    const auto refuse = [](bool condition) {
      if (condition) throw base::FileError("the checkpoint's rest of a rollout has impossible values");
    };
    const at::Tensor *taken = nets::find(state, "taken"), *order = nets::find(state, "order");
    refuse(taken == nullptr || taken->numel() != 1 || taken->scalar_type() != at::kLong || order == nullptr ||
           order->dim() != 1 || order->scalar_type() != at::kLong);
    rows_ = order->numel();
    refuse(!at::equal(std::get<0>(order->sort()), at::arange(rows_, at::kLong)));
    taken_ = taken->item<std::int64_t>();
    refuse(taken_ < 1 || taken_ >= epochs_ * batches_ || rows_ < batches_);
    order_ = order->contiguous();
    const std::size_t count = state.size() - 2;
    refuse(count > columns.size());
    all_.columns.clear();
    for (std::size_t c = 0; c < count; ++c) {
      const at::Tensor* column = nets::find(state, fmt::format("column.{}", c));
      std::vector<std::int64_t> shape = columns[c].shape;
      shape.insert(shape.begin(), rows_);
      refuse(column == nullptr || column->scalar_type() != at::kFloat ||
             column->sizes() != at::IntArrayRef(shape));
      all_.columns.push_back(column->contiguous());
    }
  }

 private:
  void shuffle(std::uint64_t update) {
    auto* place = order_.data_ptr<std::int64_t>();
    base::RandomStream random(seed_, update, base::Purpose::kSample);
    for (std::int64_t left = rows_; left > 1; --left)
      std::swap(place[left - 1], place[random.below(static_cast<std::uint32_t>(left))]);
  }

  std::int64_t epochs_, batches_;
  std::uint64_t seed_;
  replay::Batch all_;
  at::Tensor order_;
  std::int64_t rows_ = 0, taken_ = 0;  // batches taken from it so far
};

class HostArena final : public Arena {
 public:
  explicit HostArena(const ArenaParts& parts)
      : o_(parts.options),
        learner_(parts.learner),
        collector_(parts.collector),
        replay_(parts.replay),
        feed_(o_.learner.feed),
        seed_(parts.collector_options.seed),
        rollout_(o_, seed_),
        learned_(parts.record) {
    if (!parts.device.is_cpu()) upload_.emplace(parts.device);
    if (!parts.rest.empty()) rollout_.restore(parts.rest, learner_.columns());
  }

  void step(std::vector<rollout::Episode>& ended) override { collector_.step(learner_.policy(), ended); }

  void draw(std::int64_t update) override {
    const auto number = static_cast<std::uint64_t>(update);
    batch_ = upload_ ? &upload_->next() : &plain_;
    switch (feed_) {
      case learners::Feed::kReplay:
        return replay_.sample(o_.batch_size, seed_, number, *batch_);
      case learners::Feed::kWindows:
        return replay_.sample_windows(o_.batch_size / o_.sequence_length, o_.sequence_length, seed_, number,
                                      *batch_);
      case learners::Feed::kRollout:
        return rollout_.next_batch(update, replay_, learner_, *batch_);
    }
  }

  void learn(const learners::Average& average) override {
    const replay::Batch& batch = upload_ ? upload_->send() : plain_;
    learned_.run([&] { learner_.update(batch, average); });
  }

  [[nodiscard]] nets::NamedTensors rest() const override { return rollout_.state(); }

  [[nodiscard]] ArenaCount count() const override {
    return {collector_.episodes_ended(), collector_.epsilon(), replay_.size(), replay_.appended()};
  }
  [[nodiscard]] std::int64_t pool_size() const override {
    return feed_ == learners::Feed::kRollout ? rollout_.rows() : replay_.size();
  }
  [[nodiscard]] const replay::Batch& last_batch() const override { return *batch_; }

 private:
  const Plan& o_;
  learners::Learner& learner_;
  rollout::Collector& collector_;
  replay::Buffer& replay_;
  const learners::Feed feed_;
  const std::uint64_t seed_;
  Rollout rollout_;
  replay::Batch plain_;
  std::optional<Upload> upload_;  // to a GPU
  replay::Batch* batch_ = &plain_;
  Recorded learned_;
};

}  // namespace

std::unique_ptr<Arena> make_host_arena(const ArenaParts& parts) { return std::make_unique<HostArena>(parts); }

}  // namespace snake_ddp::train
