// What a search expects to happen, move by move.
#pragma once

#include <array>
#include <vector>

#include "snake_ddp/game/game.hpp"
#include "snake_ddp/play/reasons.hpp"
#include "snake_ddp/play/search_chance.hpp"

namespace snake_ddp::play {

/// Moves from a board on. A snake that dies on the way has none afterwards.
class Variation {
 public:
  explicit Variation(const game::State& root) : state_(root) {}

  void add(const game::Actions& actions, const Draws& draws) {
    DrawnChance chance(draws);
    const game::StepResult result = game::step(state_, actions, chance);
    auto& moves = moves_.emplace_back();
    for (std::size_t i = 0; i < moves.size(); ++i) {
      moves[i] = gone_[i] ? kGone : result.turned[i];
      gone_[i] = gone_[i] || result.hit[i] != 0;
    }
  }
  [[nodiscard]] bool over() const { return state_.done(); }
  [[nodiscard]] const std::vector<std::array<int, game::kSnakes>>& moves() const { return moves_; }

 private:
  game::State state_;
  std::vector<std::array<int, game::kSnakes>> moves_;
  std::array<bool, game::kSnakes> gone_{};
};

}  // namespace snake_ddp::play
