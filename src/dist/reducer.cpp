#include "snake_ddp/dist/reducer.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "snake_ddp/base/check.hpp"
#include "snake_ddp/base/wait.hpp"

namespace snake_ddp::dist {

// Accumulators hold the hooks; the leaves refer to them weakly.
struct Reducer::Hooks {
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators;
};

Reducer::Reducer(const std::vector<at::Tensor>& leaves, at::Tensor flat, DistContext& context,
                 std::int64_t bucket_bytes)
    : flat_(std::move(flat)), context_(context), hooks_(std::make_unique<Hooks>()) {
  if (context.size() == 1 || !flat_.device().is_cpu()) return;
  // From the last leaf on, whose gradient comes first. A bucket ends where the next one begins, so gaps between
  // blocks are part of it.
  const auto* const base = flat_.data_ptr<float>();
  std::int64_t end = flat_.numel();
  Bucket bucket;
  std::vector<std::size_t> bucket_of(leaves.size());
  for (std::size_t i = leaves.size(); i-- > 0;) {
    const std::int64_t begin = i == 0 ? 0 : leaves[i].grad().data_ptr<float>() - base;
    SD_CHECK(begin >= 0 && begin < end, "gradients are not in the order of their leaves");
    ++bucket.leaves;
    bucket_of[i] = buckets_.size();
    if (i > 0 && (end - begin) * static_cast<std::int64_t>(sizeof(float)) < bucket_bytes) continue;
    bucket.gradient = flat_.narrow(0, begin, end - begin);
    buckets_.push_back(std::exchange(bucket, {}));
    end = begin;
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(leaves[i]);
    accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, of = bucket_of[i]](const auto& outputs, const auto&) {
          ready(of);
          return outputs;
        }));
    hooks_->accumulators.push_back(std::move(accumulator));
  }
  thread_ = std::jthread([this] { work(); });
}

Reducer::~Reducer() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void Reducer::begin() {
  const std::lock_guard lock(mutex_);
  for (Bucket& bucket : buckets_) bucket.missing = bucket.leaves;
  released_ = averaged_ = 0;
  running_ = true;
}

// Called by the backward pass.
void Reducer::ready(std::size_t bucket) {
  const std::lock_guard lock(mutex_);
  if (!running_) return;
  --buckets_[bucket].missing;
  // In one order on all ranks: a bucket waits for those before it.
  while (released_ < buckets_.size() && buckets_[released_].missing == 0) ++released_;
  changed_.notify_all();
}

void Reducer::work() {
  for (std::unique_lock lock(mutex_);;) {
    base::wait_until(changed_, lock, [&] { return stopping_ || (averaged_ < released_ && !failure_); });
    if (stopping_) return;
    at::Tensor gradient = buckets_[averaged_].gradient;
    lock.unlock();
    std::exception_ptr failure;
    try {
      context_.all_reduce_mean(gradient, context_.deadline());
    } catch (...) {  // a thread's entry: `finish` rethrows it
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    ++averaged_;
    changed_.notify_all();
  }
}

void Reducer::finish() {
  if (buckets_.empty()) {
    if (context_.size() > 1) context_.all_reduce_mean(flat_, context_.deadline());
    return;
  }
  std::unique_lock lock(mutex_);
  released_ = buckets_.size();
  changed_.notify_all();
  base::wait_until(changed_, lock, [&] { return failure_ || averaged_ == buckets_.size(); });
  running_ = false;
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace snake_ddp::dist
