#include "rollout_work.hpp"

#include "snake_ddp/core/each.hpp"

namespace snake_ddp::rollout {
namespace {

constexpr int kBlock = 128;

template <class Work>
int queue(const Work& work, std::int64_t count, void* stream) {
  return core::each_on_device(count, work, static_cast<cudaStream_t>(stream), kBlock);
}

}  // namespace

int launch(const ExpectLast& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const ExpectCut& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const Returns& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const Begin& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const TakeRows& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const CountBatch& w, std::int64_t n, void* stream) { return queue(w, n, stream); }

}  // namespace snake_ddp::rollout
