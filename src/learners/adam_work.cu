#include "adam_work.hpp"

#include "snake_ddp/core/each.hpp"

namespace snake_ddp::learners {

int launch(const BeginAdam& work, std::int64_t count, void* stream) {
  return core::each_on_device(count, work, static_cast<cudaStream_t>(stream), 32);
}
int launch(const StepAdam& work, std::int64_t count, void* stream) {
  return core::each_on_device(count, work, static_cast<cudaStream_t>(stream), 256);
}

}  // namespace snake_ddp::learners
