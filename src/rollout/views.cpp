// What boards look like to a team, and boards that wander; on the host or a device.
#include <ATen/ATen.h>

#include "board_work.hpp"
#include "show_boards.hpp"
#include "snake_ddp/base/check.hpp"
#include "snake_ddp/cuda/kernels.hpp"
#include "snake_ddp/game/rules.hpp"
#include "snake_ddp/rollout/board_graphs.hpp"
#include "snake_ddp/rollout/wanderers.hpp"

namespace snake_ddp::rollout {
void see(at::Device device, std::int64_t count, const Seen& seen) {
  // In main memory one thread is faster than the eight of SeeView one after the other, which tests run.
  if (device.is_cpu() && !base::host_loop) {
    for (std::int64_t i = 0; i < count; ++i) seen.sight.write(seen.board(i), seen.team, seen.row(i));
    return;
  }
  if (encode::is_view(seen.sight.kind)) return cuda::run_work(device, count, SeeView{seen});
  cuda::run_work(device, count, SeePlain{seen});
}

void show_boards(const play::Sight& sight, const at::Tensor& storage, const at::Tensor& indices,
                 at::Tensor& out) {
  see(storage.device(), indices.size(0),
      {sight, boards_in(storage), indices.data_ptr<std::int64_t>(), out.data_ptr<float>()});
}

at::Tensor board_graphs(int view_radius, const at::Tensor& boards) {
  if (!boards.is_cpu() && !cuda::kHaveKernels)
    return board_graphs(view_radius, boards.cpu()).to(boards.device());
  SD_CHECK(reinterpret_cast<std::uintptr_t>(boards.const_data_ptr()) % alignof(game::State) == 0,
           "boards inside of other rows");
  at::Tensor out = at::empty({boards.size(0), play::kTeam, encode::kGraphsFloats}, boards.options());
  cuda::run_work(boards.device(), boards.size(0) * play::kTeam,
                 WriteGraphs{view_radius, boards_in(boards), out.data_ptr<float>()});
  return out;
}

Wanderers::Wanderers(std::int64_t boards, std::uint64_t seed, const play::Sight* sight, at::Device device)
    : sight_(sight != nullptr ? *sight : play::Sight{}),
      seed_(seed),
      boards_(at::zeros({boards, static_cast<std::int64_t>(sizeof(game::State))}, at::kByte)),
      games_(at::zeros({boards}, at::kInt)) {
  if (sight != nullptr)
    observations_ =
        at::zeros({boards, play::kTeam, sight_.features() + 1}, at::TensorOptions(device).dtype(at::kFloat));
  auto* board = static_cast<game::State*>(boards_.data_ptr());
  for (std::int64_t b = 0; b < boards; ++b) board[b] = game::new_board({seed_, play::stream_of(b, 0)});
  boards_ = boards_.to(device);
  games_ = games_.to(device);
}

void Wanderers::step() {
  cuda::run_work(boards_.device(), boards_.size(0),
                 WanderBoard{static_cast<game::State*>(boards_.data_ptr()),
                             static_cast<std::uint32_t*>(games_.data_ptr()), seed_});
  if (observations_.defined())
    see(boards_.device(), boards_.size(0),
        {sight_, boards_in(boards_), nullptr, observations_.data_ptr<float>()});
}

}  // namespace snake_ddp::rollout
