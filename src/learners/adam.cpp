#include "snake_ddp/learners/adam.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "snake_ddp/base/simd.hpp"

namespace snake_ddp::learners {
namespace {

using base::all_lanes;
using base::kLanes;
using base::load;
using base::store;
using base::Vector;

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
constexpr double kClipEpsilon = 1e-6;

float norm_of(const float* values, std::int64_t n) {
  Vector sum[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int k = 0; k < 4; ++k) sum[k] += load(values + i + k * kLanes) * load(values + i + k * kLanes);
  }
  double squares = static_cast<double>(base::sum_of((sum[0] + sum[1]) + (sum[2] + sum[3])));
  for (; i < n; ++i) squares += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return static_cast<float>(std::sqrt(squares));
}

// One network's memory is read and written once: at a few hundred kilobytes it is the traffic that costs.
template <bool kFollow>
void step_on_cpu(float* __restrict p, const float* __restrict g, float* __restrict m, float* __restrict v,
                 float* __restrict target, std::int64_t n, float clip, double step_number,
                 double learning_rate, double tau) {
  const auto rate = static_cast<float>(learning_rate / (1 - std::pow(kBeta1, step_number)));
  const auto correction = static_cast<float>(1 / std::sqrt(1 - std::pow(kBeta2, step_number)));
  constexpr auto kB1 = static_cast<float>(1 - kBeta1), kB2 = static_cast<float>(1 - kBeta2);
  const auto follow = static_cast<float>(tau);
  for (std::int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] * clip;
    const float first = m[i] + kB1 * (gradient - m[i]);
    const float second = v[i] + kB2 * (gradient * gradient - v[i]);
    const float now = p[i] - rate * first / (std::sqrt(second) * correction + static_cast<float>(kEpsilon));
    m[i] = first;
    v[i] = second;
    p[i] = now;
    if constexpr (kFollow) target[i] += follow * (now - target[i]);
  }
}

}  // namespace

Adam::Adam(const nets::FlatParameters& parameters, double learning_rate_, bool by_library_)
    : learning_rate(learning_rate_),
      by_library(by_library_),
      first_moment(parameters.like()),
      second_moment(parameters.like()),
      steps(at::zeros({}, parameters.flat().options())) {}

at::Tensor Adam::step(at::Tensor& parameters, at::Tensor& gradient, double max_norm) {
  at::Tensor none;
  return step(parameters, gradient, max_norm, none, 0.0);
}

at::Tensor Adam::step(at::Tensor& parameters, at::Tensor& gradient, double max_norm, at::Tensor& target,
                      double tau) {
  if (!by_library) {
    const std::int64_t n = parameters.numel();
    const float norm = norm_of(gradient.data_ptr<float>(), n);
    const auto clip =
        static_cast<float>(std::min(1.0, max_norm / (static_cast<double>(norm) + kClipEpsilon)));
    float& count = *steps.data_ptr<float>();
    count += 1;
    auto* first = first_moment.flat().data_ptr<float>();
    auto* second = second_moment.flat().data_ptr<float>();
    const auto step_all = target.defined() ? step_on_cpu<true> : step_on_cpu<false>;
    step_all(parameters.data_ptr<float>(), gradient.data_ptr<float>(), first, second,
             target.defined() ? target.data_ptr<float>() : nullptr, n, clip, static_cast<double>(count),
             learning_rate, tau);
    return at::scalar_tensor(norm);
  }
  // No value comes back to the host on the way.
  at::Tensor norm = at::linalg_vector_norm(gradient);
  gradient.mul_(norm.add(kClipEpsilon).reciprocal_().mul_(max_norm).clamp_max_(1.0));
  steps.add_(1);
  at::_fused_adam_({parameters}, {gradient}, {first_moment.flat()}, {second_moment.flat()}, {}, {steps},
                   learning_rate, kBeta1, kBeta2, /*weight_decay=*/0.0, kEpsilon, /*amsgrad=*/false,
                   /*maximize=*/false);
  if (target.defined()) target.lerp_(parameters, tau);
  return norm;
}

void Adam::reset() {
  first_moment.flat().zero_();
  second_moment.flat().zero_();
  steps.zero_();
}

}  // namespace snake_ddp::learners
