// How a policy looks at a board: which features, scaled or raw.
#pragma once

#include "snake_ddp/encode/observation.hpp"
#include "snake_ddp/encode/scaling.hpp"
#include "snake_ddp/game/game.hpp"

namespace snake_ddp::rollout {

struct Sight {
  encode::ObsKind kind = encode::ObsKind::k30;
  encode::Scaling scaling = encode::no_scaling();

  [[nodiscard]] int features() const { return encode::obs_size(kind); }

  /// Writes the rows that networks read.
  /// Shapes  out [3, features + 1], the constant 1 included.
  void write(const game::State& state, int team, float* out) const {
    float raw[3 * 30];
    const int n = features();
    encode::observe(kind, state, team, raw);
    for (int snake = 0; snake < game::kTeamSize; ++snake) {
      float* row = out + snake * (n + 1);
      const float* from = raw + snake * n;
      for (int i = 0; i < n; ++i) row[i] = (from[i] - scaling.shift[i]) * scaling.scale[i];
      row[n] = 1.0F;
    }
  }
};

/// The move drawn from unnormalised probabilities, negative ones counting as 0; uniform where none is
/// positive. `unit` is in [0, 1).
inline std::uint8_t sampled_move(const float* weights, float unit) {
  float positive[4];
  float total = 0.0F;
  for (int a = 0; a < 4; ++a) {
    positive[a] = weights[a] > 0.0F ? weights[a] : 0.0F;
    total += positive[a];
  }
  if (!(total > 0.0F)) return static_cast<std::uint8_t>(unit * 4.0F);
  float left = unit * total;
  for (std::uint8_t a = 0; a < 3; ++a) {
    left -= positive[a];
    if (left < 0.0F) return a;
  }
  // Rounding may leave a rest: the last move with any weight.
  return positive[3] > 0.0F ? 3 : positive[2] > 0.0F ? 2 : positive[1] > 0.0F ? 1 : 0;
}

/// The move of largest weight, the lowest on a tie.
inline std::uint8_t best_move(const float* weights) {
  std::uint8_t best = 0;
  for (std::uint8_t a = 1; a < 4; ++a) {
    if (weights[a] > weights[best]) best = a;
  }
  return best;
}

}  // namespace snake_ddp::rollout
