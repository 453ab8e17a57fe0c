// Chance of imagined steps. It is drawn independently of the game's own, which a player cannot know.
#pragma once

#include <cstdint>

#include "snake_ddp/core/random.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::play {

/// The chance of one step as data, the same for all boards that it is used on.
struct Draws {
  std::uint32_t turn;                // digit `snake` of it as a fraction in base 3 replaces a reversal
  std::uint32_t bean[game::kBeans];  // the k-th new bean: free cell number bean[k] * free cells / 2^32
};

/// A `Chance` (game/chance.hpp) from draws.
class DrawnChance {
 public:
  explicit DrawnChance(const Draws& draws) : draws_(&draws) {}
  void begin_step(const game::State&) {}
  [[nodiscard]] std::uint8_t turn(int snake, std::uint8_t forbidden) const {
    std::uint32_t fraction = draws_->turn;
    for (int i = 0; i < snake; ++i) fraction *= 3;
    const std::uint32_t digit = core::below(fraction, 3);
    return static_cast<std::uint8_t>(digit + (digit >= forbidden ? 1 : 0));
  }
  int bean(const game::State& state) {
    return state.nth_free(static_cast<int>(
        core::below(draws_->bean[dealt_++], static_cast<std::uint32_t>(state.free_cells()))));
  }

 private:
  const Draws* draws_;
  std::uint32_t dealt_ = 0;
};

/// The random numbers of one team's move: a pure function of the arguments, whatever was drawn before.
class MoveRandom {
 public:
  MoveRandom(std::uint64_t seed, std::uint64_t game, int step, int team) {
    const core::RandomBlock b =
        core::random_block(seed, game, static_cast<std::uint32_t>(step * 2 + team), core::Purpose::kSearch);
    seed_ = static_cast<std::uint64_t>(b.word[1]) << 32 | b.word[0];
    stream_ = static_cast<std::uint64_t>(b.word[3]) << 32 | b.word[2];
  }
  /// Of sample or simulation `sample`, `depth` steps from now.
  [[nodiscard]] Draws draws(std::uint32_t sample, std::uint32_t depth) const {
    const core::RandomBlock a = block(sample, depth, 0), b = block(sample, depth, 1);
    return {a.word[0], {a.word[1], a.word[2], a.word[3], b.word[0], b.word[1]}};
  }
  /// For the moves of the foes in a sample.
  [[nodiscard]] core::RandomBlock foes(std::uint32_t sample) const { return block(sample, 0, 2); }

 private:
  [[nodiscard]] core::RandomBlock block(std::uint32_t sample, std::uint32_t depth,
                                        std::uint32_t which) const {
    return core::random_block(seed_, stream_, sample << 10 | depth << 2 | which, core::Purpose::kSearch);
  }

  std::uint64_t seed_ = 0, stream_ = 0;
};

/// The lead that a step brought team A over team B, in points per snake.
inline double lead_of(const game::StepResult& result) {
  int lead = 0;
  for (int i = 0; i < game::kSnakes; ++i) lead += i < game::kTeamSize ? result.reward[i] : -result.reward[i];
  return static_cast<double>(lead) / game::kTeamSize;
}

}  // namespace snake_ddp::play
