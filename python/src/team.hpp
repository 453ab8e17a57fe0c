// A team in Python: a script, a trained network, or a search with one. Nothing here depends on Python.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actor.hpp"
#include "snake_ddp/core/random.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/play/match.hpp"
#include "snake_ddp/play/mover.hpp"
#include "snake_ddp/play/obs_spec.hpp"

namespace snake_ddp::python {

/// Immutable after construction, so threads may share it. Exactly one of `script`, `q_net`, `actor` and `values` is set.
struct Team {
  std::optional<game::Opponent> script;
  std::shared_ptr<const play::QWeights> q_net;
  std::shared_ptr<const Actor> actor;
  std::optional<play::Evaluator> values;         // of moves, from the caller
  std::shared_ptr<const play::Searcher> search;  // a Q-network's search, if it has one; always with `values`
  play::ObsSpec obs_spec;                        // what the network reads
  bool argmax = false;                           // an actor's most probable move; otherwise moves are sampled
  bool mask_fatal = false;  // an actor makes no move of game::fatal_moves; Q-networks never do

  [[nodiscard]] bool makes_best() const { return q_net != nullptr || argmax; }
  [[nodiscard]] bool avoids_fatal() const { return q_net != nullptr || mask_fatal; }
};

/// A script's team.
/// Throws  UsageError for an unknown name.
Team scripted_team(const std::string& name);

/// A network's passes and their memory. One per thread.
class Passes {
 public:
  static constexpr std::int64_t kBoards =
      32;  // 96 rows: what the second-level cache holds beside the weights

  explicit Passes(const Team& team);
  /// Floats of a row: the features and a constant 1.
  [[nodiscard]] std::int64_t row_floats() const { return row_floats_; }
  /// Room for the rows of kBoards boards.
  [[nodiscard]] float* rows() { return rows_.data(); }
  /// What the moves of the first `boards` boards in `rows` are worth, or how likely they are.
  /// Shapes  returns [boards, 3, 4], valid until the next call.
  const float* run(std::int64_t boards);

 private:
  std::shared_ptr<const play::QWeights> q_net_;
  std::shared_ptr<const Actor> actor_;
  std::int64_t row_floats_;
  std::vector<float> rows_, values_;
  play::QScratch q_scratch_;
  core::AlignedFloats hidden_;  // the actor's
};

/// The moves of a team that is a network, as play::Mover::act, on any number of boards. `draw(k)` has the words by which moves on
/// board k are sampled.
void choose(const Team& team, Passes& passes, std::span<const game::State> boards,
            std::span<const std::uint8_t> sides, const std::function<core::RandomBlock(std::size_t)>& draw,
            std::span<game::Actions> actions);

/// As play::Mover::act, on any number of boards.
void act_in_blocks(play::Mover& mover, std::span<const game::State> boards,
                   std::span<const std::uint8_t> sides, std::int64_t first_game,
                   std::span<game::Actions> actions);

/// The direction that a snake takes after a network's outputs; `up` as play::ObsSpec::up.
inline std::uint8_t move_of(const Team& team, int up, const float* values, unsigned open,
                            std::uint32_t draw) {
  float by_direction[game::kMoves];
  game::to_directions(up, values, by_direction);
  return team.makes_best() ? play::best_move(by_direction, open)
                           : play::sampled_move(by_direction, core::unit_float(draw), open);
}

/// The team as a player for matches, as in `snake_ddp eval`.
play::MakeMover mover_of(const std::shared_ptr<const Team>& team);

}  // namespace snake_ddp::python
