// Many games stepped together, for Python. Nothing here depends on Python.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "snake_ddp/game/mix.hpp"
#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/reward.hpp"
#include "snake_ddp/game/state.hpp"
#include "snake_ddp/play/board_step.hpp"
#include "team.hpp"

namespace snake_ddp::python {

/// What happens to a board whose game ended: the next step starts a new game, without a move; the same step starts
/// it; nothing, the caller must reset it.
enum class Autoreset { kNextStep, kSameStep, kDisabled };

/// "next_step", "same_step", "disabled".
/// Throws  UsageError that lists these names.
Autoreset autoreset_of(const std::string& name);

struct Options {
  std::int64_t num_boards = 1;
  std::optional<game::ObsKind> obs;  // empty: no observations
  game::RewardRule reward = game::RewardRule::kScore;
  // The opponent of the caller's team: a script, drawn per game, or one team; with neither the caller moves all
  // snakes.
  std::optional<game::Mix> mix;
  std::shared_ptr<const Team> team;
  int episode_length = game::kMaxSteps;
  Autoreset autoreset = Autoreset::kNextStep;
  bool swap_sides = false;
  bool observe_both = false;
};

/// The arrays that a batch writes. They may outlive it.
struct Arrays {
  std::vector<float> observations, final_observations;  // [boards, seen, features]
  std::vector<float> rewards;                           // [boards, acting]
  std::unique_ptr<bool[]> terminated, truncated;        // [boards]
  std::vector<game::State> states;                      // [boards]
  std::vector<std::int32_t> scores;                     // [boards, 2]
  std::vector<std::uint8_t> sides;                      // [boards]
};

/// Where a batch writes the outputs of a step; part of `Arrays`, or the caller's own memory.
struct Outputs {
  float *observations, *rewards;
  bool *terminated, *truncated;
};

class Boards {
 public:
  /// Throws  UsageError for options that are out of range or contradict each other.
  explicit Boards(const Options& options);

  [[nodiscard]] std::int64_t size() const { return options_.num_boards; }
  [[nodiscard]] int acting() const { return acting_; }
  [[nodiscard]] int seen() const { return seen_; }
  [[nodiscard]] int features() const { return features_; }
  [[nodiscard]] std::int64_t finished() const { return finished_; }
  [[nodiscard]] const std::shared_ptr<Arrays>& arrays() const { return arrays_; }

  // All of these throw std::runtime_error while another thread is inside one of them.

  /// Starts over with the first games of a seed.
  void start(std::uint64_t seed);
  /// New games on the boards where `mask` is true, on all without one.
  void start_new_games(const bool* mask);
  /// Shapes  actions [boards, acting].
  /// Throws  UsageError for an action outside 0..3, or, without autoreset, an ended board; then no board has moved.
  template <class Action>
  void step(const Action* actions);
  /// Shapes  out [boards, acting, 4].
  void open_moves(bool* out) const;
  [[nodiscard]] std::string picture(std::int64_t board) const;
  /// Equal for equal boards, whichever team played them: the collector's hash.
  [[nodiscard]] std::uint64_t hash() const;
  /// Copies the current outputs. Owner of the new memory: the caller, until the next call or this batch's end.
  void write_to(const Outputs& outputs);

  /// The state from which a later batch continues.
  struct Progress {
    bool dealt = false;
    std::uint64_t seed = 0;
    std::int64_t started = 0, finished = 0;
    std::vector<std::uint32_t> games;   // started so far, by board
    std::vector<std::int64_t> numbers;  // of the running game, in the order in which games start
    std::vector<game::State> states;
    std::vector<std::int32_t> scores;
    std::vector<float> rewards;
    std::vector<std::uint8_t> terminated, truncated;
  };
  [[nodiscard]] Progress progress() const;
  /// Throws  UsageError if it is not the progress of a batch with these options; then nothing has changed.
  void go_on(const Progress& progress);

 private:
  class InUse;

  void deal_where(const bool* mask);
  void take_seed(std::uint64_t seed);
  void start_game(std::size_t board);
  void begin(std::size_t board);
  void take_place(std::size_t board);
  void observe(std::size_t board, float* out) const;
  void ask_team();
  [[nodiscard]] int side(std::size_t board) const { return arrays_->sides[board]; }
  [[nodiscard]] std::uint64_t stream(std::size_t board) const;
  [[nodiscard]] float* observation(std::size_t board) const {
    return outputs_.observations + board * static_cast<std::size_t>(seen_ * features_);
  }
  [[nodiscard]] bool ended(std::size_t board) const {
    return terminated_[board] != 0 || truncated_[board] != 0;
  }
  void set_end(std::size_t board, bool terminated, bool truncated);
  void require_deal() const;

  Options options_;
  int acting_, seen_, features_;
  std::shared_ptr<Arrays> arrays_;
  Outputs outputs_;
  std::vector<game::Opponent> scripts_;    // of the running games, with a mix
  std::unique_ptr<Passes> passes_;         // for a team that is a network
  std::vector<game::Actions> answers_;     // of a team that is not scripted
  std::unique_ptr<play::Mover> searcher_;  // for a team that searches
  std::vector<std::uint8_t> foes_;         // the opponent's team, 0 or 1, by board
  // Of the latest step. The caller may change the outputs, which say the same.
  std::vector<std::uint8_t> terminated_, truncated_;
  std::vector<std::uint32_t> games_;
  std::vector<std::int64_t> numbers_;
  std::uint64_t seed_ = 0;
  std::int64_t started_ = 0, finished_ = 0;
  bool dealt_ = false;
  mutable std::atomic<bool> in_use_ = false;
};

}  // namespace snake_ddp::python
