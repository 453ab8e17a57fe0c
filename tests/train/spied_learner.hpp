// Runs in this process whose learner a test can observe: make_learner is replaced at link time.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "learners/learner.hpp"
#include "learners/registry.hpp"

namespace snake_ddp {

/// Called with each learner that the loop makes, while it is set.
inline std::function<std::unique_ptr<learners::Learner>(std::unique_ptr<learners::Learner>)> g_decorate;

std::unique_ptr<learners::Learner> real_make_learner(const learners::LearnerOptions& options) __asm__(
    "__real__ZN9snake_ddp8learners12make_learnerERKNS0_14LearnerOptionsE");
std::unique_ptr<learners::Learner> wrapped_make_learner(const learners::LearnerOptions& options) __asm__(
    "__wrap__ZN9snake_ddp8learners12make_learnerERKNS0_14LearnerOptionsE");

inline std::unique_ptr<learners::Learner> decorated(const learners::LearnerOptions& options) {
  std::unique_ptr<learners::Learner> made = real_make_learner(options);
  return g_decorate ? g_decorate(std::move(made)) : std::move(made);
}

/// Forwards to `inner`, and records the arguments.
class SpiedLearner final : public learners::Learner {
 public:
  struct Notes {
    std::vector<double> rates;             // factors, in their order
    std::vector<learners::Batch> batches;  // of updates: copies
    nets::NamedTensors last;               // the state after the last update: a copy
  };

  SpiedLearner(std::unique_ptr<learners::Learner> inner, Notes& notes)
      : inner_(std::move(inner)), notes_(notes) {}

  std::vector<learners::Column> columns() const override { return inner_->columns(); }
  nets::Policy& policy() override { return inner_->policy(); }
  void update(const learners::Batch& batch, const learners::Average& average) override {
    notes_.batches.push_back(copy_of(batch));
    inner_->update(batch, average);
  }
  void scale_rates(double factor) override {
    notes_.rates.push_back(factor);
    inner_->scale_rates(factor);
  }
  at::Tensor measured() const override { return inner_->measured(); }
  nets::NamedTensors state() override { return inner_->state(); }
  void state_changed() override { inner_->state_changed(); }
  std::vector<learners::Trained> trained() override { return inner_->trained(); }
  nets::NamedTensors exported_actor() override { return inner_->exported_actor(); }
  nets::NamedTensors exported_critic() override { return inner_->exported_critic(); }
  void start_from_exported() override { inner_->start_from_exported(); }

 private:
  static learners::Batch copy_of(const learners::Batch& batch) {
    learners::Batch copy;
    for (const at::Tensor& column : batch.columns) copy.columns.push_back(column.clone());
    return copy;
  }

  std::unique_ptr<learners::Learner> inner_;
  Notes& notes_;
};

}  // namespace snake_ddp
