// Observations of boards, and boards as replay and windows of n steps hold them.
#pragma once

#include <ATen/core/Tensor.h>

#include "snake_ddp/play/obs_spec.hpp"

namespace snake_ddp::rollout {

struct Seen;

/// The boards whose bytes a tensor holds.
inline const game::State* boards_in(const at::Tensor& storage) {
  return static_cast<const game::State*>(storage.const_data_ptr());
}

/// Writes what `seen` asks for, of `count` boards.
void see(at::Device device, std::int64_t count, const Seen& seen);

/// Writes team A's observation of the boards at `indices`.
/// Shapes  storage [capacity, 64] float32, the bytes of boards; indices [B] int64; out [B, 3, features + 1]; on one device.
void show_boards(const play::ObsSpec& obs_spec, const at::Tensor& storage, const at::Tensor& indices,
                 at::Tensor& out);

/// Whether the bytes of these kBoardFloats floats, which may come from a file, are a board that the rules allow.
bool is_board(const float* image);

}  // namespace snake_ddp::rollout
