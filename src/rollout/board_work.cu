#include "board_work.hpp"

#include "snake_ddp/core/each.hpp"

namespace snake_ddp::rollout {
namespace {

// Boards are large and their work is long: small blocks spread over more of the device.
constexpr int kBlock = 64;

template <class Work>
cudaError_t queue(const Work& work, std::int64_t count, void* stream) {
  if constexpr (requires { Work::kLanes; }) {
    return core::each_on_device(count, work, static_cast<cudaStream_t>(stream));
  } else {
    return core::each_on_device(count, work, static_cast<cudaStream_t>(stream), kBlock);
  }
}

}  // namespace

int launch(const TerritoryMoves& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const StartBoard& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const FrozenMoves& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const PlayBoard& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const SettleBoard<false>& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const SettleBoard<true>& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const CountStep& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const SeePlain& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const SeeView& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const WriteGraphs& w, std::int64_t n, void* stream) { return queue(w, n, stream); }
int launch(const RandomBoard& w, std::int64_t n, void* stream) { return queue(w, n, stream); }

}  // namespace snake_ddp::rollout
