// Many boards stepped together: the policy plays team A on all of them in one batch; a scripted opponent, a frozen
// policy or the policy itself plays team B. The policy's transitions go into replay.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "snake_ddp/agents/mix.hpp"
#include "snake_ddp/encode/reward.hpp"
#include "snake_ddp/game/state.hpp"
#include "snake_ddp/nets/flat_parameters.hpp"
#include "snake_ddp/nets/policy.hpp"
#include "snake_ddp/play/sight.hpp"
#include "snake_ddp/play/turn.hpp"
#include "snake_ddp/replay/buffer.hpp"

namespace snake_ddp::rollout {

/// A game so far.
struct Episode {
  std::int64_t number = 0;   // of this rank, from 1, in the order in which games end; 0 before its end
  std::int64_t started = 0;  // number in the order in which games start, which chose the opponent
  int snake_return[game::kTeamSize] = {};  // sums of the game's own rewards
  int team_return[2] = {};
  int steps = 0;
  double epsilon = 0;
  agents::Rival opponent{agents::Opponent::kLevel0};
};

struct CollectorOptions : play::TurnRules {
  std::int64_t num_envs = 1;
  double epsilon = 0.5;
  double epsilon_speed = 0.9995;  // factor on epsilon at every decision of one board
  double epsilon_min =
      0.0;  // > 0: no decay; the boards' epsilons form a geometric ladder from this to epsilon
  /// The opponent of the n-th game that this rank starts, from 1.
  std::function<agents::Rival(std::int64_t)> opponent = {};
  /// Called for the first board, if set: after a new game starts, without actions and result, and after each step.
  std::function<void(const Episode&, const game::State&, const game::Actions*, const game::StepResult*)>
      watch = {};
  bool self_play = false;  // `opponent` may be the policy itself; then its team B learns too
  /// The frozen team at an index, null if there is none; needed if `opponent` may name one. It observes like the policy
  /// and does not explore.
  std::function<nets::Policy*(int place)> frozen = {};
  std::int64_t memory = 0;  // floats of memory per snake, of the policy and of each frozen one that has any
};

/// A board's own epsilon, if they form a ladder.
double ladder_epsilon(const CollectorOptions& options, std::int64_t board);

/// A learner's columns as a collector fills them: if a board takes less than half the size of its observation, replay
/// stores the board, 256 bytes, and `sight` recomputes the observation for the rows that are drawn.
std::vector<replay::Column> with_boards(std::vector<replay::Column> columns, const play::Sight& sight);

/// A rank's progress in games, which outlives its boards.
struct GameCount {
  std::int64_t started = 0, ended = 0;
  double epsilon = 0;
};

class Collector {
 public:
  /// `replay` has columns as with_boards makes them, named observation, action, reward, next_observation,
  /// discount, next_moves (1 if a move is allowed, else 0), back (the distance in rows to the same team's previous
  /// transition of that game, 0 at its first), value (of the policy's allowed moves at the observation the largest, by snake; for
  /// one-step transitions of a policy of values), in any order; it must outlive the collector.
  /// Throws  Bug for a column with another name.
  Collector(CollectorOptions options, replay::Buffer& replay);

  /// One move on every board. Finished boards start a new game.
  /// Shapes  appends a transition for each team that the policy plays, except those still waiting for their n-th
  ///         reward; finished games are appended to `episodes`.
  void step(nets::Policy& policy, std::vector<Episode>& episodes);

  [[nodiscard]] double epsilon() const { return epsilon_; }
  [[nodiscard]] std::int64_t episodes_ended() const { return ended_; }
  [[nodiscard]] const std::vector<game::State>& boards() const { return boards_; }
  /// Hash over all boards, for tests of determinism.
  [[nodiscard]] std::uint64_t hash() const;

  [[nodiscard]] GameCount count() const { return {started_, ended_, epsilon_}; }

  /// Everything that a bit-exact continuation needs: boards, running games, n-step windows, counters.
  /// Copies; Owner: the caller.
  [[nodiscard]] nets::NamedTensors state() const;

  /// Restores the state of a collector with the same options and returns true. Returns false, with nothing changed,
  /// if that collector had other numbers of boards or steps, another layout, or games against frozen teams that no longer
  /// exist.
  /// Throws  FileError that starts with `what` if the values are impossible.
  bool restore(const nets::NamedTensors& state, const std::string& what);

  /// New boards, none of which was played before.
  void start_new_games(const GameCount& count);
  /// The decay of epsilon goes on from here.
  void explore_from(double epsilon) { epsilon_ = epsilon; }

 private:
  void start_game(std::size_t board);
  void look();
  const at::Tensor& ask(nets::Policy& policy, const at::Tensor& observations);
  void decide(nets::Policy& policy);
  void move(std::vector<Episode>& episodes);
  void ask_frozen();
  void expect();
  void choose(std::size_t board, int team, bool best, const float* values, game::Actions& actions,
              float* stored);
  void remember(std::size_t seat, const game::State& before, const float* action, const float* reward,
                const game::State& after, bool terminated, bool truncated);
  void emit(std::size_t seat, std::int64_t oldest, std::int64_t count, const game::State& after,
            bool terminated);
  [[nodiscard]] const float* as_stored(const float* board, std::vector<float>& row) const;
  [[nodiscard]] double board_epsilon(std::size_t board) const;
  [[nodiscard]] std::uint64_t stream(std::size_t board) const;

  CollectorOptions options_;
  replay::Buffer& replay_;
  std::vector<game::State> boards_;
  std::vector<std::uint32_t> games_;  // started so far, by board
  std::vector<Episode> running_;
  // Teams that the policy plays. A board has one seat, or two where there is self-play: seat = board * sides_ + team.
  struct Seat {
    std::size_t board;
    int team;
  };
  std::vector<Seat> seats_;  // in use in this step
  std::size_t sides_;
  at::Tensor observations_;  // [seats in use or more, 3, D + 1]
  // Boards against frozen teams, grouped by team, and these teams' outputs.
  std::vector<std::size_t> frozen_boards_;
  at::Tensor frozen_observations_;           // [boards or more, 3, D + 1]
  std::vector<game::Actions> frozen_moves_;  // by board
  // The last n transitions of each seat, a ring by seat: [seats, n, width].
  std::vector<float> window_;
  std::vector<std::int64_t> window_size_, window_next_;
  std::vector<std::int64_t> asked_;  // teams that the policy moves, by number 2 * board + team
  std::vector<float> values_;        // outputs of this step, by seat
  std::vector<float>
      expected_;       // column `value` of this step, [board * sides_ + team, 3]; empty without the column
  bool best_ = false;  // play the move with the highest output
  at::Tensor
      memory_;  // [boards, 2, 3, memory], of a policy with memory that plays the team; zeros at a game's start
  // By seat: replay's count of appended rows at its game's last row; kNoRow before the first.
  std::vector<std::int64_t> last_row_;
  static constexpr std::int64_t kNoRow = std::numeric_limits<std::int64_t>::min();
  bool linked_ = false;       // replay has a column `back`
  std::vector<int> sources_;  // source of each column of replay
  bool packed_ = false;       // observations are stored as boards
  std::vector<float> row_, next_row_;
  double epsilon_;
  std::int64_t started_ = 0, ended_ = 0;
};

}  // namespace snake_ddp::rollout
