// What a reader of tokens sees of boards.
#pragma once

#include <ATen/core/Tensor.h>

namespace snake_ddp::rollout {

/// The six snakes' graphs (encode/snake_graph.hpp) as each snake of team A sees them.
/// Shapes  boards [N, play::kBoardFloats] float32, the bytes of boards, in whole rows and aligned as game::State; returns [N, 3,
///         game::kGraphsFloats], on the same device.
/// Cost    on a GPU, in a build without kernels, waits for the boards and reads them on the CPU.
at::Tensor board_graphs(int view_radius, const at::Tensor& boards);

}  // namespace snake_ddp::rollout
