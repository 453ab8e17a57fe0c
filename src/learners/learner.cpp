#include "learners/learner.hpp"

#include <ATen/ATen.h>

namespace snake_ddp::learners {

UpdateStats Learner::stats() const { return stats_from(measured().to(at::kCPU)); }

UpdateStats stats_from(const at::Tensor& measured) {
  const auto* value = measured.const_data_ptr<float>();
  return {value[0], value[1], value[2], value[3], value[4]};
}

}  // namespace snake_ddp::learners
