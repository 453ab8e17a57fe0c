#include "learners/adam.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "adam_work.hpp"
#include "nets/device_work.hpp"
#include "snake_ddp/core/simd.hpp"

namespace snake_ddp::learners {
namespace {

using core::all_lanes;
using core::kLanes;
using core::load;
using core::store;
using core::Vector;

float norm_of(const float* values, std::int64_t n) {
  Vector sum[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int k = 0; k < 4; ++k) sum[k] += load(values + i + k * kLanes) * load(values + i + k * kLanes);
  }
  double squares = static_cast<double>(core::sum_of((sum[0] + sum[1]) + (sum[2] + sum[3])));
  for (; i < n; ++i) squares += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return static_cast<float>(std::sqrt(squares));
}

// One network's memory is read and written once: at a few hundred kilobytes memory traffic is the cost.
template <bool kFollow>
void step_on_cpu(float* __restrict p, const float* __restrict g, float* __restrict m, float* __restrict v,
                 float* __restrict target, std::int64_t n, const AdamScales& scales, double tau) {
  const AdamScales s = scales;
  const auto follow = static_cast<float>(tau);
  for (std::int64_t i = 0; i < n; ++i) {
    float first = m[i], second = v[i];
    const float now = adam_element(s, g[i], p[i], first, second);
    m[i] = first;
    v[i] = second;
    p[i] = now;
    if constexpr (kFollow) target[i] += follow * (now - target[i]);
  }
}

// For a network on a device: our kernels if this build has them.
Adam::Way way_of(const nets::FlatParameters& parameters, const nets::Backend* backend) {
  if (nets::kHaveKernels && parameters.flat().is_cuda()) return Adam::Way::kPieces;
  const nets::Backend& by = backend != nullptr ? *backend : nets::backend_of(parameters.flat().device());
  return by.in_main_memory() ? Adam::Way::kOnePass : Adam::Way::kLibrary;
}

}  // namespace

Adam::Adam(const nets::FlatParameters& parameters, double learning_rate_, const nets::Backend* backend)
    : learning_rate(learning_rate_),
      way(way_of(parameters, backend)),
      first_moment(parameters.like()),
      second_moment(parameters.like()),
      steps(at::zeros({}, parameters.flat().options())) {}

at::Tensor Adam::step(at::Tensor& parameters, at::Tensor& gradient, double max_norm) {
  at::Tensor none;
  return step(parameters, gradient, max_norm, none, 0.0);
}

void Adam::publish_rate() {
  if (way == Way::kOnePass || published_ == learning_rate) return;
  // ATen's kernel for GPUs takes it in single precision only.
  const bool single = way == Way::kLibrary && steps.is_cuda();
  if (!rate_.defined()) rate_ = at::empty({}, steps.options().dtype(single ? at::kFloat : at::kDouble));
  rate_.fill_(learning_rate);
  published_ = learning_rate;
}

at::Tensor Adam::step(at::Tensor& parameters, at::Tensor& gradient, double max_norm, at::Tensor& target,
                      double tau) {
  auto* first = first_moment.flat().data_ptr<float>();
  auto* second = second_moment.flat().data_ptr<float>();
  auto* follower = target.defined() ? target.data_ptr<float>() : nullptr;
  const std::int64_t n = parameters.numel();
  // Tensors are not reallocated, because a recorded step has their addresses.
  publish_rate();
  if (way != Way::kOnePass && !norm_.defined()) norm_ = at::empty({}, parameters.options());
  switch (way) {
    case Way::kOnePass: {
      const float norm = norm_of(gradient.data_ptr<float>(), n);
      float& count = *steps.data_ptr<float>();
      count += 1;
      const auto step_all = follower != nullptr ? step_on_cpu<true> : step_on_cpu<false>;
      step_all(parameters.data_ptr<float>(), gradient.data_ptr<float>(), first, second, follower, n,
               adam_scales(norm, max_norm, static_cast<double>(count), learning_rate), tau);
      return at::scalar_tensor(norm);
    }
    case Way::kPieces: {
      if (!scales_.defined()) {
        scales_ =
            at::empty({static_cast<std::int64_t>(sizeof(AdamScales) / sizeof(float))}, parameters.options());
        squares_ = at::empty({}, parameters.options());
      }
      // The library takes a norm by one block of a GPU: 17 us of an H200 for 75,000 elements.
      at::dot_out(squares_, gradient.view(-1), gradient.view(-1));
      auto* scales = static_cast<AdamScales*>(scales_.data_ptr());
      nets::run_work(parameters.device(), 1,
                     BeginAdam{squares_.data_ptr<float>(), norm_.data_ptr<float>(), steps.data_ptr<float>(),
                               rate_.data_ptr<double>(), max_norm, scales});
      nets::run_work(parameters.device(), n,
                     StepAdam{scales, gradient.data_ptr<float>(), parameters.data_ptr<float>(), first, second,
                              follower, static_cast<float>(tau)});
      return norm_;
    }
    case Way::kLibrary:
      break;
  }
  // No value is copied to the host on the way.
  at::linalg_vector_norm_out(norm_, gradient);
  gradient.mul_(norm_.add(kClipEpsilon).reciprocal_().mul_(max_norm).clamp_max_(1.0));
  steps.add_(1);
  at::_fused_adam_({parameters}, {gradient}, {first_moment.flat()}, {second_moment.flat()}, {}, {steps},
                   rate_, kBeta1, kBeta2, /*weight_decay=*/0.0, kAdamEpsilon, /*amsgrad=*/false,
                   /*maximize=*/false);
  if (target.defined()) target.lerp_(parameters, tau);
  return norm_;
}

void Adam::reset() {
  first_moment.flat().zero_();
  second_moment.flat().zero_();
  steps.zero_();
}

}  // namespace snake_ddp::learners
