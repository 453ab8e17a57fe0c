#include "draw_rows.hpp"

#include "snake_ddp/base/each.hpp"

namespace snake_ddp::replay {

int launch(const DrawRows& work, std::int64_t count, void* stream) {
  return base::each_on_device(count, work, static_cast<cudaStream_t>(stream), 128);
}

}  // namespace snake_ddp::replay
