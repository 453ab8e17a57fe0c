// How a policy observes a board.
#pragma once

#include <cstdint>

#include "snake_ddp/core/host_device.hpp"
#include "snake_ddp/game/hidden_view.hpp"
#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/sides.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::play {

/// A board's bytes as floats.
inline constexpr std::int64_t kBoardFloats = sizeof(game::State) / sizeof(float);

struct ObsSpec {
  game::ObsKind kind = game::ObsKind::k30;
  int view_radius =
      0;  // above 0, with the window: cells farther than this from a snake's head are hidden from it
  bool tokens = false;  // the features are followed by the board, for a reader of tokens

  [[nodiscard]] SD_HD int features() const {
    return game::obs_size(kind) + (tokens ? static_cast<int>(kBoardFloats) : 0);
  }

  /// The direction that is up in what a snake sees, and so the first of the moves that its network values.
  [[nodiscard]] SD_HD int up(const game::State& state, int snake) const {
    return game::up_of(kind, state, snake);
  }

  /// Writes the rows that networks take.
  /// Shapes  out [3, features + 1], the constant 1 included.
  SD_HD void write(const game::State& state, int team, float* out) const {
    const int n = features();
    if (game::is_view(kind)) {
      game::view::write(kind, state, team, out, n + 1);
      for (int snake = 0; snake < game::kTeamSize; ++snake) finish_view(state, team, out + snake * (n + 1));
      return;
    }
    write_plain(state, team, out);
  }

  /// What follows the window or the view in the row of a snake of the team.
  SD_HD void finish_view(const game::State& state, int team, float* row) const {
    row[features()] = 1.0F;
    if (view_radius > 0) game::hide_far(view_radius, row);
    if (!tokens) return;
    // As replay has it, so that the two can be compared: with the observer's team as team A.
    const game::State own = team == 0 ? state : game::with_sides_swapped(state);
    // By floats, which is how a row is aligned: a device would copy it byte by byte.
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&own);
    SD_ROLLED for (std::int64_t k = 0; k < kBoardFloats; ++k) {
      float word = 0.0F;
      memcpy(&word, bytes + k * sizeof word, sizeof word);
      row[game::obs_size(kind) + k] = word;
    }
  }

  /// Writes the rows of 26 and 30 features.
  SD_HD void write_plain(const game::State& state, int team, float* out) const {
    const int n = features();
    float raw[3 * 30];
    game::observe_plain(kind, state, team, raw);
    for (int snake = 0; snake < game::kTeamSize; ++snake) {
      float* row = out + snake * (n + 1);
      const float* from = raw + snake * n;
      for (int i = 0; i < n; ++i) row[i] = from[i];
      row[n] = 1.0F;
    }
  }
};

inline constexpr unsigned kAllMoves = 15;

/// The move drawn from unnormalised probabilities, negative ones counting as 0, among those whose bit is set in `open`;
/// uniform over these if none is positive. `unit` is in [0, 1); `open` is not 0.
SD_HD inline std::uint8_t sampled_move(const float* weights, float unit, unsigned open = kAllMoves) {
  float positive[4];
  float total = 0.0F;
  int count = 0;
  for (unsigned a = 0; a < 4; ++a) {
    const bool may = (open >> a & 1U) != 0;
    positive[a] = may && weights[a] > 0.0F ? weights[a] : 0.0F;
    total += positive[a];
    count += may;
  }
  if (!(total > 0.0F)) {
    int place = static_cast<int>(unit * static_cast<float>(count));
    std::uint8_t a = 0;
    while ((open >> a & 1U) == 0 || place-- > 0) ++a;
    return a;
  }
  float left = unit * total;
  for (std::uint8_t a = 0; a < 3; ++a) {
    left -= positive[a];
    if (left < 0.0F) return a;
  }
  // Rounding may leave a remainder: the last move with any weight.
  return positive[3] > 0.0F ? 3 : positive[2] > 0.0F ? 2 : positive[1] > 0.0F ? 1 : 0;
}

/// The move with the largest weight among those in `open`, the lowest on a tie.
SD_HD inline std::uint8_t best_move(const float* weights, unsigned open = kAllMoves) {
  std::uint8_t best = 4;
  for (std::uint8_t a = 0; a < 4; ++a) {
    if ((open >> a & 1U) != 0 && (best == 4 || weights[a] > weights[best])) best = a;
  }
  return best;
}

}  // namespace snake_ddp::play
