#include "draw_rows.hpp"

#include "snake_ddp/core/each.hpp"

namespace snake_ddp::learners {

int launch(const DrawRows& work, std::int64_t count, void* stream) {
  return core::each_on_device(count, work, static_cast<cudaStream_t>(stream), 128);
}

}  // namespace snake_ddp::learners
