// Boards as replay and windows of n steps hold them: bytes that may come from a file.
#pragma once

namespace snake_ddp::rollout {

/// Whether the bytes of these kBoardFloats floats are a board that the rules allow.
bool is_board(const float* image);

}  // namespace snake_ddp::rollout
