#include "fleet_work.hpp"

#include "snake_ddp/base/each.hpp"

namespace snake_ddp::rollout {

// Boards are large and their work is long: small blocks spread over more of the device.
constexpr int kBlock = 64;

int launch(const PlayBoard& work, std::int64_t count, void* stream) {
  return base::each_on_device(count, work, static_cast<cudaStream_t>(stream), kBlock);
}
int launch(const SettleBoard& work, std::int64_t count, void* stream) {
  return base::each_on_device(count, work, static_cast<cudaStream_t>(stream), kBlock);
}
int launch(const LookAtBoard& work, std::int64_t count, void* stream) {
  return base::each_on_device(count, work, static_cast<cudaStream_t>(stream), kBlock);
}
int launch(const CountStep& work, std::int64_t count, void* stream) {
  return base::each_on_device(count, work, static_cast<cudaStream_t>(stream), kBlock);
}
int launch(const ShowBoard& work, std::int64_t count, void* stream) {
  return base::each_on_device(count, work, static_cast<cudaStream_t>(stream), kBlock);
}
int launch(const WanderBoard& work, std::int64_t count, void* stream) {
  return base::each_on_device(count, work, static_cast<cudaStream_t>(stream), kBlock);
}

}  // namespace snake_ddp::rollout
