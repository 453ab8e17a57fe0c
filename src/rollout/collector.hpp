// Many boards stepped together, on the host or a device: the policy plays team A on all of them in one batch; a scripted opponent,
// a frozen policy or the policy itself plays team B. The policy's transitions go into replay or a rollout. The host queues work and
// fetches finished games on request; in main memory the same functors run in a loop.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "learners/buffer.hpp"
#include "learners/transition.hpp"
#include "nets/flat_parameters.hpp"
#include "nets/policy.hpp"
#include "rollout/rollout.hpp"
#include "snake_ddp/game/curriculum.hpp"
#include "snake_ddp/game/mix.hpp"
#include "snake_ddp/game/reward.hpp"
#include "snake_ddp/game/state.hpp"
#include "snake_ddp/play/board_step.hpp"
#include "snake_ddp/play/obs_spec.hpp"

namespace snake_ddp::rollout {

/// A game so far.
struct Episode {
  std::int64_t number = 0;   // of this rank, from 1, in the order in which games end; 0 before its end
  std::int64_t started = 0;  // number in the order in which games start
  int snake_return[game::kTeamSize] = {};  // sums of the game's own rewards
  int team_return[2] = {};
  int steps = 0;
  double epsilon = 0;
  game::Rival opponent{game::Opponent::kLevel0};
};

struct CollectorOptions : play::StepRules {
  std::int64_t num_envs = 1;
  double epsilon = 0.5;
  double epsilon_speed = 0.9995;  // factor on epsilon at every decision of one board
  double epsilon_min =
      0.0;  // > 0: no decay; the boards' epsilons form a geometric ladder from this to epsilon
  /// The opponents by board; or, if there are none, by a game's number in the order in which they start, from 1.
  std::vector<game::Rival> rivals = {};
  game::OpponentPlan schedule = {};
  /// Called for the first board, if set: after a new game starts, without actions and result, and after each step. For boards in
  /// main memory.
  std::function<void(const Episode&, const game::State&, const game::Actions*, const game::StepResult*)>
      watch = {};
  /// The frozen team at an index, null if there is none; needed if `rivals` may name one. It observes like the policy
  /// and does not explore.
  std::function<nets::Policy*(int place)> frozen = {};
  std::int64_t memory = 0;  // floats of memory per snake, of the policy and of each frozen one that has any
};

/// A learner's columns as a collector fills them: if a board takes less than half the size of its observation, replay
/// stores the board, 256 bytes, and `obs_spec` recomputes the observation for the rows that are drawn.
std::vector<learners::Column> with_boards(std::vector<learners::Column> columns,
                                          const play::ObsSpec& obs_spec);

/// Neighbouring boards against the same frozen team.
struct FrozenRange {
  std::int64_t first, end;
  nets::Policy* policy;
  bool operator==(const FrozenRange&) const = default;
};

/// The opponents' codes. Shapes  [boards] int64.
at::Tensor codes_of(const std::vector<game::Rival>& rivals);

/// A rank's progress in games, which outlives its boards.
struct GameCount {
  std::int64_t started = 0, ended = 0;
  double epsilon = 0;
};

struct BoardArrays;

class Collector {
 public:
  /// The boards are where `replay` is, which has columns as with_boards makes them, named observation, action, reward,
  /// next_observation, discount, next_moves (1 if a move is allowed, else 0), back (the distance in rows to the same team's previous
  /// transition of that game, 0 at its first), in any order. With a `rollout` on that device, of a policy of values, nothing goes
  /// there. Both must outlive the collector. `fetch_interval`: maximum number of steps between fetches.
  /// Throws  Bug for a column with another name; UsageError if replay is smaller than what one step may store.
  Collector(CollectorOptions options, learners::Buffer& replay, Rollout* rollout = nullptr,
            std::int64_t fetch_interval = 1);

  /// Queues one move on every board; finished boards start a new game. The policy's outputs are copied to the device if necessary.
  /// Stores a transition for each team that the policy plays, except those still waiting for their n-th reward.
  void step(nets::Policy& policy);
  /// Appends the games that ended since the last call, in order. Waits for the device.
  void fetch(std::vector<Episode>& episodes);
  /// Both.
  void step(nets::Policy& policy, std::vector<Episode>& episodes) {
    step(policy);
    fetch(episodes);
  }
  /// Queues the end of a complete rollout.
  void finish(nets::Policy& policy);

  /// Other opponents on the boards, but where the policy plays itself. Games in progress go on against them; a game counts for
  /// the opponent at its end. Without opponents by board, nothing happens. Returns whether anybody changed: recordings of `step` are
  /// then void.
  bool deal(std::vector<game::Rival> rivals);

  // As of the last fetch.
  [[nodiscard]] double epsilon() const { return fetched_epsilon_; }
  [[nodiscard]] std::int64_t episodes_ended() const { return fetched_; }

  /// Copies; these wait for the device.
  [[nodiscard]] std::vector<game::State> boards() const;
  /// Hash over all boards, for tests of determinism.
  [[nodiscard]] std::uint64_t hash() const;
  [[nodiscard]] GameCount count() const;

  /// Everything that a bit-exact continuation needs: boards, running games, n-step windows, counters.
  /// Copies in main memory; Owner: the caller.
  [[nodiscard]] nets::NamedTensors state() const;

  /// Restores the state of a collector with the same options, on any device, and returns true. Returns false, with nothing changed,
  /// if that collector had other numbers of boards or steps, or the policy played itself on other ones. Opponents by board are
  /// those of the options.
  /// Throws  FileError that starts with `what` if the values are impossible.
  bool restore(const nets::NamedTensors& state, const std::string& what);

  /// New boards, none of which was played before.
  void start_new_games(const GameCount& count);
  /// The decay of epsilon goes on from here.
  void explore_from(double epsilon);

  /// The observations of the seats, [seats, 3, features + 1].
  [[nodiscard]] const at::Tensor& observations() const { return observations_; }

 private:
  void find_columns();
  [[nodiscard]] BoardArrays arrays() const;
  template <class Work>
  void run(std::int64_t count) const;
  at::Tensor ask(nets::Policy& policy, const at::Tensor& observations, const at::Tensor& teams);
  void ask_frozen();
  void ask_territory();
  void meet();
  void look();
  void look_at(std::int64_t first, std::int64_t count, int team, at::Tensor& out, std::int64_t row) const;
  [[nodiscard]] Episode running(std::int64_t board) const;
  void watch_step(const game::State& before) const;
  void settle();

  CollectorOptions options_;
  Seats seats_;
  std::int64_t sides_;  // windows of a board: two where the policy plays itself
  learners::Buffer& replay_;
  Rollout* rollout_;
  at::Device device_;
  // What `state` names, on the device.
  at::Tensor boards_, games_, running_, running_epsilon_, window_, window_size_, window_next_, epsilon_,
      started_, ended_, last_row_, memory_;
  // What a step needs besides; board_work.hpp has their shapes.
  at::Tensor place_, counts_, sums_, actions_, records_, record_epsilon_, observations_, values_, rivals_,
      frozen_observations_, seat_teams_;
  std::vector<FrozenRange> frozen_;
  std::int64_t
      sources_[learners::kTransitionColumns];  // the index of each in replay's columns, -1 if there is none
  bool stores_boards_ = false, best_ = false, territory_ = false;
  std::int64_t fetched_ = 0;
  double fetched_epsilon_;
};

}  // namespace snake_ddp::rollout
