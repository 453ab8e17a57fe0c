// What happens to one board in one step, apart from the networks: moves from a policy's outputs, rewards, n-step
// sums. Compiles for devices.
#pragma once

#include <cstdint>

#include "snake_ddp/core/host_device.hpp"
#include "snake_ddp/core/random.hpp"
#include "snake_ddp/game/moves.hpp"
#include "snake_ddp/game/reward.hpp"
#include "snake_ddp/game/state.hpp"
#include "snake_ddp/play/obs_spec.hpp"

namespace snake_ddp::play {

inline constexpr std::int64_t kTeamSize = game::kTeamSize, kActions = game::kMoves,
                              kActionFloats = kTeamSize * kActions,
                              // A transition that waits for its n-th reward: board, action, reward.
    kWindowWidth = kBoardFloats + kActionFloats + kTeamSize,
                              // Where its board must be at a multiple of 16 bytes.
    kAlignedWindowWidth = (kWindowWidth + 3) / 4 * 4;

/// Added to the step so that team B draws its own random numbers.
inline constexpr std::uint32_t kTeamBStream = 1U << 16;

/// A running game as integers, in this order.
enum EpisodeField : std::int64_t { kStarted, kReturns, kSteps = kReturns + kTeamSize, kOpponent, kFields };

/// The rules of a step: what a team sees, how it moves, what it is given, what is stored of it. Plain values.
struct StepRules {
  ObsSpec obs_spec = {};
  game::RewardRule reward = game::RewardRule::kV12;
  double reward_scale = 1.0;
  double own_reward = 1.0;    // weight of a snake's own reward; the rest is the mean of its team's
  double rival_reward = 0.0;  // weight of the opponents' mean game reward, which is subtracted
  double random_low = 0.0;    // exploring action vectors are uniform in (random_low, 1)
  double gamma = 0.99;
  bool mask_fatal = false;    // moves in game::fatal_moves are neither played nor explored
  bool store_played = false;  // the action stored is the played move, one-hot, instead of the actor's output
  std::int64_t n_step = 1;
  std::int64_t episode_length = game::kMaxSteps;  // a game cut off earlier is truncated, not terminated
  std::uint64_t seed = 1;                         // rank included
};

/// The stream of random numbers of the `games`-th game of a board.
SD_HD inline std::uint64_t stream_of(std::int64_t board, std::uint32_t games) {
  return static_cast<std::uint64_t>(board) << 32 | games;
}

/// What a policy answers for one snake, by direction, and the moves that it may make.
struct MoveValues {
  float of[kActions];
  unsigned open;

  /// The best open move, or one drawn from the move as weights; `unit` is in [0, 1).
  [[nodiscard]] SD_HD std::uint8_t best() const { return best_move(of, open); }
  [[nodiscard]] SD_HD std::uint8_t sampled(float unit) const { return sampled_move(of, unit, open); }
};

/// Shapes  outputs [4], in the order of moves that ObsSpec::up gives.
SD_HD inline MoveValues move_values(const ObsSpec& obs_spec, bool mask_fatal, const game::State& state,
                                    int snake, const float* outputs) {
  MoveValues move{{}, mask_fatal ? game::open_moves(state, snake) : kAllMoves};
  game::to_directions(obs_spec.up(state, snake), outputs, move.of);
  return move;
}

/// The moves of a frozen team B, which does not explore: the best ones of values, or else drawn from weights.
/// Shapes  outputs [12]; moves [3].
SD_HD inline void frozen_moves(const StepRules& rules, const game::State& state, std::uint64_t stream,
                               bool best, const float* outputs, std::uint8_t* moves) {
  const auto step = static_cast<std::uint32_t>(state.step());
  const core::RandomBlock draw =
      core::random_block(rules.seed, stream, step | kTeamBStream, core::Purpose::kAct);
  for (int k = 0; k < kTeamSize; ++k) {
    const MoveValues move =
        move_values(rules.obs_spec, rules.mask_fatal, state, game::kTeamSize + k, outputs + k * kActions);
    moves[k] = best ? move.best() : move.sampled(core::unit_float(draw.word[k]));
  }
}

/// Of each snake of a team: the value of its best open move.
/// Shapes  values [12]; worth [3].
SD_HD inline void worth_of(const StepRules& rules, const game::State& state, int team, const float* values,
                           float* worth) {
  for (int k = 0; k < kTeamSize; ++k) {
    const MoveValues move = move_values(rules.obs_spec, rules.mask_fatal, state, team * game::kTeamSize + k,
                                        values + k * kActions);
    worth[k] = move.of[move.best()];
  }
}

/// Chooses a team's moves. From weights, as in the reference: with probability epsilon the whole team's action vector
/// is replaced by random numbers; in either case moves are sampled from the vector. From values (`best`): each snake
/// makes its best move, or with probability epsilon any.
/// Shapes  values, stored [12]: the policy's outputs, and what replay stores of them; both in the order of moves that
///         ObsSpec::up gives.
SD_HD inline void choose(const StepRules& rules, const game::State& state, std::uint64_t stream, int team,
                         double epsilon, bool best, const float* values, game::Actions& actions,
                         float* stored) {
  const auto step = static_cast<std::uint32_t>(state.step());
  const std::uint32_t side = team == 0 ? 0 : kTeamBStream;
  const core::RandomBlock draw = core::random_block(rules.seed, stream, step | side, core::Purpose::kAct);
  for (std::int64_t i = 0; i < kActionFloats; ++i) stored[i] = values[i];
  core::RandomStream random(rules.seed, stream, core::Purpose::kExplore, step * 4 | side);
  if (!best && static_cast<double>(core::unit_float(draw.word[3])) < epsilon) {
    const auto low = static_cast<float>(rules.random_low);
    for (std::int64_t i = 0; i < kActionFloats; ++i) stored[i] = low + (1.0F - low) * random.unit();
  }
  constexpr float kNone[kActions] = {};
  for (int snake = 0; snake < kTeamSize; ++snake) {
    float* weights = stored + snake * kActions;
    const int index = team * game::kTeamSize + snake;
    const float unit = core::unit_float(draw.word[snake]);
    const bool explores = best && static_cast<double>(random.unit()) < epsilon;
    const MoveValues move =
        move_values(rules.obs_spec, rules.mask_fatal, state, index, explores ? kNone : weights);
    const std::uint8_t direction = best && !explores ? move.best() : move.sampled(unit);
    actions.of[index] = direction;
    if (rules.store_played || best) {
      const int up = rules.obs_spec.up(state, index);
      for (int a = 0; a < kActions; ++a) weights[a] = game::direction_of(up, a) == direction ? 1.0F : 0.0F;
    }
  }
}

/// The training rewards of a team's snakes for the step that led to `after`.
/// Shapes  out [3].
SD_HD inline void team_reward(const StepRules& rules, const game::State& after,
                              const game::StepResult& result, int team, float* out) {
  const int code = game::score_code(after, team), first = team * game::kTeamSize;
  float mean = 0.0F, rivals = 0.0F;
  for (int i = 0; i < game::kTeamSize; ++i) {
    out[i] = game::shaped_reward(rules.reward, after, first + i, result.reward[first + i], code);
    mean += out[i] / game::kTeamSize;
    rivals += static_cast<float>(result.reward[game::kTeamSize - first + i]) / game::kTeamSize;
  }
  const auto own = static_cast<float>(rules.own_reward), rival = static_cast<float>(rules.rival_reward);
  for (int i = 0; i < game::kTeamSize; ++i) {
    const float shared = own == 1.0F ? out[i] : own * out[i] + (1.0F - own) * mean;
    out[i] = (shared - rival * rivals) * static_cast<float>(rules.reward_scale);
  }
}

/// A transition over `count` steps, without its boards.
struct Summed {
  float reward[kTeamSize], discount[kTeamSize], next_moves[kActionFloats];
};

/// Sums the rewards of `count` steps from `oldest` on.
/// Shapes  window [n_step, kWindowWidth], a ring, rows `stride` apart.
SD_HD inline Summed summed(const StepRules& rules, const float* window, std::int64_t oldest,
                           std::int64_t count, const game::State& after, bool terminated,
                           std::int64_t stride = kWindowWidth) {
  Summed s{};
  double factor = 1.0;
  for (std::int64_t k = 0; k < count; ++k) {
    const float* reward = window + (oldest + k) % rules.n_step * stride + kBoardFloats + kActionFloats;
    for (int snake = 0; snake < kTeamSize; ++snake)
      s.reward[snake] += static_cast<float>(factor) * reward[snake];
    factor *= rules.gamma;
  }
  for (int snake = 0; snake < kTeamSize; ++snake) {
    s.discount[snake] = terminated ? 0.0F : static_cast<float>(factor);
    const unsigned open = rules.mask_fatal ? game::open_moves(after, snake) : kAllMoves;
    const int up = rules.obs_spec.up(after, snake);
    for (int a = 0; a < kActions; ++a)
      s.next_moves[snake * kActions + a] = (open >> game::direction_of(up, a) & 1U) != 0 ? 1.0F : 0.0F;
  }
  return s;
}

}  // namespace snake_ddp::play
