// What boards look like to a team, and boards that wander; on the host or a device.
#include <ATen/ATen.h>

#include "board_work.hpp"
#include "nets/device_work.hpp"
#include "rollout/board_graphs.hpp"
#include "rollout/random_boards.hpp"
#include "show_boards.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/game/rules.hpp"

namespace snake_ddp::rollout {
void see(at::Device device, std::int64_t count, const Seen& seen) {
  // In main memory one thread is faster than the eight of SeeView one after the other, which tests run.
  if (device.is_cpu() && !core::host_loop) {
    for (std::int64_t i = 0; i < count; ++i) seen.obs_spec.write(seen.board(i), seen.team, seen.row(i));
    return;
  }
  if (game::is_view(seen.obs_spec.kind)) return nets::run_work(device, count, SeeView{seen});
  nets::run_work(device, count, SeePlain{seen});
}

void show_boards(const play::ObsSpec& obs_spec, const at::Tensor& storage, const at::Tensor& indices,
                 at::Tensor& out) {
  see(storage.device(), indices.size(0),
      {obs_spec, boards_in(storage), indices.data_ptr<std::int64_t>(), out.data_ptr<float>()});
}

at::Tensor board_graphs(int view_radius, const at::Tensor& boards) {
  if (!boards.is_cpu() && !nets::kHaveKernels)
    return board_graphs(view_radius, boards.cpu()).to(boards.device());
  SD_CHECK(reinterpret_cast<std::uintptr_t>(boards.const_data_ptr()) % alignof(game::State) == 0,
           "boards must lie side by side, without other columns between them");
  at::Tensor out = at::empty({boards.size(0), play::kTeamSize, game::kGraphsFloats}, boards.options());
  nets::run_work(boards.device(), boards.size(0) * play::kTeamSize,
                 WriteGraphs{view_radius, boards_in(boards), out.data_ptr<float>()});
  return out;
}

RandomBoards::RandomBoards(std::int64_t boards, std::uint64_t seed, const play::ObsSpec* obs_spec,
                           at::Device device)
    : sight_(obs_spec != nullptr ? *obs_spec : play::ObsSpec{}),
      seed_(seed),
      boards_(at::zeros({boards, static_cast<std::int64_t>(sizeof(game::State))}, at::kByte)),
      games_(at::zeros({boards}, at::kInt)) {
  if (obs_spec != nullptr)
    observations_ = at::zeros({boards, play::kTeamSize, sight_.features() + 1},
                              at::TensorOptions(device).dtype(at::kFloat));
  auto* board = static_cast<game::State*>(boards_.data_ptr());
  for (std::int64_t b = 0; b < boards; ++b) board[b] = game::new_board({seed_, play::stream_of(b, 0)});
  boards_ = boards_.to(device);
  games_ = games_.to(device);
}

void RandomBoards::step() {
  nets::run_work(boards_.device(), boards_.size(0),
                 RandomBoard{static_cast<game::State*>(boards_.data_ptr()),
                             static_cast<std::uint32_t*>(games_.data_ptr()), seed_});
  if (observations_.defined())
    see(boards_.device(), boards_.size(0),
        {sight_, boards_in(boards_), nullptr, observations_.data_ptr<float>()});
}

}  // namespace snake_ddp::rollout
