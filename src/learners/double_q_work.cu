#include "double_q_work.hpp"
#include "snake_ddp/core/each.hpp"

namespace snake_ddp::learners {

int launch(const DoubleQ& work, std::int64_t count, void* stream) {
  return core::each_on_device(count, work, static_cast<cudaStream_t>(stream), 64);
}

}  // namespace snake_ddp::learners
