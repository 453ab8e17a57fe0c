#include "snake_ddp/learners/learner.hpp"

#include <ATen/ATen.h>

namespace snake_ddp::learners {

UpdateStats Learner::stats() const { return stats_from(measured().to(at::kCPU)); }

UpdateStats stats_from(const at::Tensor& measured) {
  const auto* value = measured.const_data_ptr<float>();
  return {value[0], value[1], value[2], value[3], value[4]};
}

at::Tensor measured_values(const at::Tensor& loss, const at::Tensor& norm, const at::Tensor& q_mean) {
  const at::Tensor none = at::zeros_like(loss);
  return at::stack({none, loss, none, norm, q_mean});
}

}  // namespace snake_ddp::learners
