#include "train/averaging.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::train {
namespace {

constexpr const char* kVelocity = "velocity";  // of the outer step, in a checkpoint

class EveryUpdate final : public Averaging {
 public:
  explicit EveryUpdate(learners::Average average) : reduce_(std::move(average)) {}
  [[nodiscard]] const learners::Average& reduce() const override { return reduce_; }

 private:
  learners::Average reduce_;
};

class Weights final : public Averaging {
 public:
  Weights(learners::Learner& learner, std::int64_t interval, double momentum, learners::Average average)
      : learner_(learner), interval_(interval), momentum_(momentum), average_(std::move(average)) {}

  [[nodiscard]] const learners::Average& reduce() const override { return reduce_; }

  void begin() override {
    const c10::NoGradGuard no_grad;
    start_ = at::cat(weights(learner_.trained()));
    if (!velocity_.defined()) velocity_ = at::zeros_like(start_);
    if (velocity_.numel() != start_.numel())
      throw core::FileError(fmt::format("{} in the outer step's momentum, {} in the learner",
                                        core::counted(velocity_.numel(), "weight"), start_.numel()));
    velocity_ = velocity_.to(start_.device());
  }

  void updated() override {
    if (++since_ == interval_) synchronise();
  }

  [[nodiscard]] bool are_synchronised() const override { return since_ == 0; }

  void synchronise() override {
    if (since_ == 0) return;
    since_ = 0;
    const c10::NoGradGuard no_grad;
    const std::vector<learners::Trained> trained = learner_.trained();
    std::vector<at::Tensor> parts = weights(trained);
    for (const learners::Trained& t : trained) parts.insert(parts.end(), t.slots.begin(), t.slots.end());
    at::Tensor all = at::cat(parts);
    average_(all);
    if (momentum_ != 0) take_outer_step(all.narrow(0, 0, start_.numel()));
    std::int64_t first = 0;
    for (at::Tensor& part : parts) {
      part.copy_(all.narrow(0, first, part.numel()));
      first += part.numel();
    }
    learner_.state_changed();
  }

  [[nodiscard]] nets::NamedTensors state() override {
    if (momentum_ == 0) return {};
    return {{kVelocity, velocity_}};
  }

  void restore(const nets::NamedTensors& state, const std::string& what) override {
    if (nets::find(state, kVelocity) == nullptr) return;  // the run averaged gradients before
    velocity_ = nets::StateReader(state, what).of(at::kFloat, kVelocity).flatten().clone();
  }

 private:
  static std::vector<at::Tensor> weights(const std::vector<learners::Trained>& trained) {
    std::vector<at::Tensor> all;
    all.reserve(trained.size());
    for (const learners::Trained& t : trained) all.push_back(t.weights);
    return all;
  }

  // From `start_` in the direction of `mean`, which is overwritten by the result.
  void take_outer_step(const at::Tensor& mean) {
    const at::Tensor delta = start_ - mean;
    velocity_.mul_(momentum_).add_(delta);
    start_.sub_(delta.add(velocity_, momentum_));
    mean.copy_(start_);
  }

  learners::Learner& learner_;
  std::int64_t interval_;  // updates between two averages
  double momentum_;
  learners::Average average_;
  learners::Average reduce_ = [](at::Tensor&) {};  // leaves gradients as they are
  at::Tensor start_, velocity_;                    // [all networks' weights]
  std::int64_t since_ = 0;                         // updates
};

}  // namespace

std::unique_ptr<Averaging> average_every_update(learners::Average average) {
  return std::make_unique<EveryUpdate>(std::move(average));
}

std::unique_ptr<Averaging> average_weights(learners::Learner& learner, std::int64_t interval, double momentum,
                                           learners::Average average) {
  return std::make_unique<Weights>(learner, interval, momentum, std::move(average));
}

}  // namespace snake_ddp::train
