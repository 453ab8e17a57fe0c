#include "last_layer_work.hpp"
#include "snake_ddp/core/each.hpp"

namespace snake_ddp::nets {

int launch(const LastLayer<1>& work, std::int64_t rows, void* stream) {
  return core::each_on_device(rows, work, static_cast<cudaStream_t>(stream));
}
int launch(const LastLayer<4>& work, std::int64_t rows, void* stream) {
  return core::each_on_device(rows, work, static_cast<cudaStream_t>(stream));
}

}  // namespace snake_ddp::nets
