// What the teams that learn have just played, on the host or a device: a learner takes batches of it a few times over, then it
// is forgotten.
// Follows  Gallici et al., "Simplifying deep temporal difference learning", arXiv:2407.04811, algorithm 1.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "learners/buffer.hpp"
#include "nets/flat_parameters.hpp"
#include "nets/policy.hpp"
#include "rollout/rollout_arrays.hpp"
#include "snake_ddp/game/mix.hpp"
#include "snake_ddp/play/board_step.hpp"

namespace snake_ddp::rollout {

/// The seats on boards with these opponents, those of the policy itself side by side.
Seats seats_of(const std::vector<game::Rival>& rivals, std::int64_t boards);

struct RolloutOptions {
  std::int64_t steps = 16, epochs = 2, batches = 8;  // batches of an epoch
  double lambda = 0.65;
  std::uint64_t seed = 1;  // rank included
};

class Rollout {
 public:
  /// Throws  UsageError if there is not enough memory.
  Rollout(const RolloutOptions& options, const play::StepRules& rules, const Seats& seats, at::Device device);

  /// To write a step with put_turn; who has written all seats counts kStep on. Owner: this.
  [[nodiscard]] const RolloutArrays& arrays() const { return arrays_; }
  [[nodiscard]] at::Device device() const { return board_.device(); }
  /// Transitions of a rollout.
  [[nodiscard]] std::int64_t rows() const { return options_.steps * arrays_.seats.count(); }

  /// Queues storing what the seats see now. Shapes  observations [seats, 3, features + 1].
  void see(const at::Tensor& observations);
  /// Queues the returns of a complete rollout.
  /// Shapes  observations [seats, 3, features + 1] of the boards that follow it, `boards` [boards]; on this device.
  void finish(nets::Policy& policy, const at::Tensor& observations, const game::State* boards);
  /// Queues the next batch: observation, action and return. The epoch's order follows from the seed and from the batches ever taken.
  /// Shapes  fills `out`, the same tensors in each call; B is rows / batches, rounded down.
  void take(learners::Batch& out);

  /// The host's count of the same: queued work may be a recording, which counts nothing here.
  void stepped() {
    ++step_;
    appended_ += arrays_.seats.count();
  }
  void took();
  /// A complete rollout of which no batch was taken.
  [[nodiscard]] bool is_due() const { return step_ == options_.steps && taken_ == 0; }
  /// Transitions that are stored and still to be learned from, and all since this was made.
  [[nodiscard]] std::int64_t stored() const { return step_ * arrays_.seats.count(); }
  [[nodiscard]] std::int64_t appended() const { return appended_; }

  /// Everything that a bit-exact continuation needs; nothing between two rollouts. Waits for the device. Copies; Owner: the caller.
  [[nodiscard]] nets::NamedTensors state() const;
  /// Whether `state` is of a rollout with these steps, seats and batches.
  [[nodiscard]] bool fits(const nets::NamedTensors& state) const;
  /// `draws`: batches ever taken. An empty state begins a rollout.
  /// Throws  FileError for impossible values.
  void restore(const nets::NamedTensors& state, std::int64_t draws);

 private:
  [[nodiscard]] nets::NamedTensors tensors() const;

  RolloutOptions options_;
  play::StepRules rules_;
  at::Tensor seen_, board_, action_, reward_, discount_, value_, cut_board_, cut_value_, last_value_,
      counter_, index_, all_cuts_, cut_seen_;
  RolloutArrays arrays_;
  std::int64_t step_ = 0, taken_ = 0, appended_ = 0;
};

}  // namespace snake_ddp::rollout
