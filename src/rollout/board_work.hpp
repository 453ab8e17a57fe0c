// What a collector does with one board, as functors for the host or a device. All pointers are to the collector's and
// replay's tensors on that device.
#pragma once

#include <cstdint>
#include <limits>

#include "learners/counters.hpp"
#include "learners/transition.hpp"
#include "rollout_work.hpp"
#include "snake_ddp/core/chunk.hpp"
#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/curriculum.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/mix.hpp"
#include "snake_ddp/game/snake_graph.hpp"
#include "snake_ddp/game/survey.hpp"
#include "snake_ddp/play/board_step.hpp"

namespace snake_ddp::rollout {

/// Fields of an ended game's record.
enum EndedField : std::int64_t {
  kEndedNumber,
  kEndedStarted,
  kEndedSnakes,
  kEndedTeams = kEndedSnakes + play::kTeamSize,
  kEndedSteps = kEndedTeams + 2,
  kEndedOpponent,
  kEndedFields
};

struct BoardArrays {
  play::StepRules rules;
  game::OpponentPlan schedule;  // empty where each board has its own opponent
  Seats seats;
  std::int64_t sides;  // windows of a board, 2 where the policy plays itself
  std::int64_t capacity, ended_capacity;
  bool best;    // the policy's outputs are values
  bool decays;  // epsilon decays; otherwise each board has its own, from `place`

  game::State* boards;
  std::int64_t* games;    // started so far, by board
  std::int64_t* running;  // [boards, kFields]
  double* running_epsilon;
  float* window;                            // [boards, sides, n_step, kAlignedWindowWidth]
  std::int64_t *window_size, *window_next;  // [boards, sides]
  double* epsilon;                          // one number
  const double* place;                      // [boards + 1], factors on `epsilon`, or the boards' own epsilons
  std::int64_t *started, *ended;            // one number each
  const float* values;                      // [seats, 12]
  std::uint8_t* rivals;    // [boards, 3], moves of team B where they are known before the step
  game::Actions* actions;  // [boards], of the last step
  float* memory;           // [boards, memory_floats], of the policies that play its teams
  std::int64_t memory_floats;
  std::int64_t* counts;      // games ended << 32 | rows for replay, of each board in this step
  const std::int64_t* sums;  // the same, of it and all boards before it
  std::int64_t* records;     // [ended_capacity, kEndedFields], a ring
  double* record_epsilon;
  std::int64_t* last_row;  // [boards, sides], its number among all rows; kNoRow before a game's first
  float* column[learners::kTransitionColumns];  // replay's; null where it has none
  std::int64_t* counter;                        // replay's counters
  RolloutArrays rollout;  // with which there is no replay; without boards: there is none
};

inline constexpr std::int64_t kRowsMask = (std::int64_t{1} << 32) - 1;
inline constexpr std::int64_t kNoRow = std::numeric_limits<std::int64_t>::min();

SD_HD inline void start_game(const BoardArrays& f, std::int64_t b, std::int64_t number) {
  const auto games = static_cast<std::uint32_t>(++f.games[b]);
  game::PhiloxChance chance(f.rules.seed, play::stream_of(b, games));
  game::State board;
  game::reset(board, chance);
  f.boards[b] = board;
  std::int64_t* running = f.running + b * play::kFields;
  for (std::int64_t k = 0; k < play::kFields; ++k)
    if (k != play::kOpponent) running[k] = 0;
  running[play::kStarted] = number;
  if (f.schedule.count > 0) running[play::kOpponent] = static_cast<std::int64_t>(f.schedule.of(number));
  f.running_epsilon[b] = 0;
  for (std::int64_t side = 0; side < f.sides; ++side) f.last_row[b * f.sides + side] = kNoRow;
  for (std::int64_t k = 0; k < f.memory_floats; ++k) f.memory[b * f.memory_floats + k] = 0.0F;
}

/// All boards at once, in place of their games.
struct StartBoard {
  BoardArrays f;

  SD_HD void operator()(std::int64_t b) const {
    for (std::int64_t side = 0; side < f.sides; ++side) f.window_size[b * f.sides + side] = 0;
    start_game(f, b, *f.started + b + 1);
  }
};

SD_HD inline bool has_ended(const BoardArrays& f, std::int64_t b) {
  return f.boards[b].done() || f.running[b * play::kFields + play::kSteps] >= f.rules.episode_length;
}

/// The board of a row's first step in the window.
SD_HD inline const game::State& board_in(const float* row) {
  return *reinterpret_cast<const game::State*>(row);
}

/// A board as its team sees it, as team A. Apart: unrolled, it would take all of a thread's registers.
SD_HD_APART inline void swap_sides(const game::State& board, game::State& swapped) {
  swapped = game::with_sides_swapped(board);
}

SD_HD inline std::int64_t opponent_of(const BoardArrays& f, std::int64_t b) {
  return f.running[b * play::kFields + play::kOpponent];
}

SD_HD inline int teams_of(const BoardArrays& f, std::int64_t b) {
  return opponent_of(f, b) == game::kSelfCode ? 2 : 1;
}

/// Team B's moves where it plays by the territory heuristic; before PlayBoard.
struct TerritoryMoves {
  static constexpr int kLanes = game::kSurveyLanes, kPhases = game::kSurveyPhases + 2;
  struct Shared {
    game::Surveyed board;
    game::MoveFeatures move_features[play::kTeamSize][game::kMoves];
  };
  BoardArrays f;

  SD_HD void operator()(int phase, std::int64_t b, int lane, Shared& s) const {
    if (opponent_of(f, b) != static_cast<int>(game::Opponent::kTerritory)) return;
    if (phase < game::kSurveyPhases) {
      game::survey(phase, f.boards[b], lane, true, s.board, nullptr);
    } else if (phase == game::kSurveyPhases) {
      SD_ROLLED for (int k = lane; k < game::kTeamSize * game::kMoves; k += kLanes)
          s.move_features[k / game::kMoves][k % game::kMoves] =
          game::move_features_of(s.board, game::kTeamSize + k / game::kMoves, k % game::kMoves);
    } else if (lane == 0) {
      game::Actions actions;
      const auto look = [&](int snake) { return s.move_features[snake - play::kTeamSize]; };
      game::territory::choose(s.board.state, s.board.reach, 1, look, actions);
      for (int k = 0; k < play::kTeamSize; ++k)
        f.rivals[b * play::kTeamSize + k] = actions.of[play::kTeamSize + k];
    }
  }
};

/// Team B's moves on boards where a frozen team plays it; before PlayBoard.
struct FrozenMoves {
  BoardArrays f;
  std::int64_t first;    // board
  const float* outputs;  // [boards from `first` on, 12]
  bool best;             // they are values

  SD_HD void operator()(std::int64_t i) const {
    const std::int64_t b = first + i;
    play::frozen_moves(f.rules, f.boards[b], play::stream_of(b, static_cast<std::uint32_t>(f.games[b])), best,
                       outputs + i * play::kActionFloats, f.rivals + b * play::kTeamSize);
  }
};

/// Moves, the game's step, rewards; stores them in the rollout, or in a window and counts what replay is to store.
struct PlayBoard {
  BoardArrays f;

  // Where a team's action and reward go, before replay has them.
  [[nodiscard]] SD_HD float* window(std::int64_t b, int team) const {
    const std::int64_t seat = b * f.sides + team;
    return f.window + (seat * f.rules.n_step + f.window_next[seat]) * play::kAlignedWindowWidth;
  }

  SD_HD void operator()(std::int64_t b) const {
    game::State board = f.boards[b];
    const std::uint64_t stream = play::stream_of(b, static_cast<std::uint32_t>(f.games[b]));
    std::int64_t* running = f.running + b * play::kFields;
    const int teams = teams_of(f, b);
    const double decayed = f.decays ? *f.epsilon : 1.0;
    game::Actions actions{};
    float played[2][play::kActionFloats], reward[2][play::kTeamSize];
    double epsilon = 0.0;
    SD_ROLLED for (int team = 0; team < teams; ++team) {
      epsilon = decayed * f.place[f.decays ? f.seats.before(b, team) : b];
      play::choose(f.rules, board, stream, team, epsilon, f.best,
                   f.values + f.seats.of(b, team) * play::kActionFloats, actions, played[team]);
    }
    const std::int64_t opponent = running[play::kOpponent];
    if (opponent == static_cast<int>(game::Opponent::kTerritory) || opponent <= game::kFirstFrozenCode) {
      for (int k = 0; k < play::kTeamSize; ++k)
        actions.of[play::kTeamSize + k] = f.rivals[b * play::kTeamSize + k];
    } else if (teams == 1) {
      game::act_by_sight(static_cast<game::Opponent>(opponent), board, 1, actions, f.rules.seed, stream);
    }
    f.actions[b] = actions;
    game::PhiloxChance chance(f.rules.seed, stream);
    const game::StepResult result = game::step(board, actions, chance);
    SD_ROLLED for (int team = 0; team < teams; ++team)
        play::team_reward(f.rules, board, result, team, reward[team]);
    for (int snake = 0; snake < play::kTeamSize; ++snake)
      running[play::kReturns + snake] += result.reward[snake];
    ++running[play::kSteps];
    f.running_epsilon[b] = epsilon;
    const bool cut = !result.done && running[play::kSteps] >= f.rules.episode_length,
               ended = result.done || cut;
    std::int64_t rows = 0;
    SD_ROLLED for (int team = 0; team < teams; ++team) {
      game::State swapped;
      const game::State* before = &f.boards[b];
      if (team == 1) swap_sides(*before, swapped), before = &swapped;
      if (f.rollout.board != nullptr) {
        const std::int64_t seat = f.seats.of(b, team);
        put_turn(f.rollout, f.rules, seat, *before, f.values + seat * play::kActionFloats, played[team],
                 reward[team], result.done, cut);
        if (!cut) continue;
        if (team == 1) swap_sides(board, swapped);
        put_board(f.rollout.cut_board + f.rollout.cut_at(f.rollout.counter[kStep], seat),
                  team == 0 ? board : swapped);
        continue;
      }
      float* row = window(b, team);
      put_board(row, *before);
      for (int k = 0; k < play::kActionFloats; ++k) row[play::kBoardFloats + k] = played[team][k];
      for (int k = 0; k < play::kTeamSize; ++k)
        row[play::kBoardFloats + play::kActionFloats + k] = reward[team][k];
      const std::int64_t seat = b * f.sides + team, n = f.rules.n_step,
                         size = f.window_size[seat] < n ? f.window_size[seat] + 1 : n;
      f.window_size[seat] = size;
      f.window_next[seat] = (f.window_next[seat] + 1) % n;
      rows += ended ? size : size == n ? 1 : 0;
    }
    f.boards[b] = board;
    f.counts[b] = (ended ? std::int64_t{1} << 32 : 0) | rows;
  }
};

/// Stores transitions, records an ended game, and starts the next one. `kBoards`: replay stores boards, otherwise 26
/// or 30 features.
template <bool kBoards>
struct SettleBoard {
  BoardArrays f;

  template <int kWidth>
  SD_HD void put(learners::TransitionColumn source, std::int64_t slot, const float* from) const {
    if (f.column[source] == nullptr) return;
    for (int k = 0; k < kWidth; ++k) f.column[source][slot * kWidth + k] = from[k];
  }

  SD_HD void put_seen(learners::TransitionColumn source, std::int64_t slot, const game::State& board) const {
    if constexpr (kBoards) {
      put_board(f.column[source] + slot * play::kBoardFloats, board);
    } else {
      f.rules.obs_spec.write_plain(
          board, 0, f.column[source] + slot * play::kTeamSize * (f.rules.obs_spec.features() + 1));
    }
  }

  // The rows of one team; returns how many.
  SD_HD std::int64_t settle(std::int64_t b, int team, std::int64_t before, bool ended,
                            const game::State& after) const {
    const std::int64_t seat = b * f.sides + team, n = f.rules.n_step,
                       rows = ended                      ? f.window_size[seat]
                              : f.window_size[seat] == n ? 1
                                                         : 0,
                       first_row = f.counter[learners::kAppended] + before;
    const float* window = f.window + seat * n * play::kAlignedWindowWidth;
    for (std::int64_t k = 0; k < rows; ++k) {
      const std::int64_t slot = (f.counter[learners::kNext] + before + k) % f.capacity,
                         count = f.window_size[seat], oldest = (f.window_next[seat] - count + n) % n;
      const float* first = window + oldest * play::kAlignedWindowWidth;
      const play::Summed transition =
          play::summed(f.rules, window, oldest, count, after, after.done(), play::kAlignedWindowWidth);
      put_seen(learners::kObservation, slot, board_in(first));
      put_seen(learners::kNextObservation, slot, after);
      put<play::kActionFloats>(learners::kAction, slot, first + play::kBoardFloats);
      put<play::kTeamSize>(learners::kReward, slot, transition.reward);
      put<play::kTeamSize>(learners::kDiscount, slot, transition.discount);
      put<play::kActionFloats>(learners::kNextMoves, slot, transition.next_moves);
      const std::int64_t row = first_row + k, last = f.last_row[seat];
      const float back = last == kNoRow ? 0.0F : static_cast<float>(row - last);
      put<1>(learners::kBack, slot, &back);
      f.last_row[seat] = row;
      --f.window_size[seat];
    }
    return rows;
  }

  SD_HD void operator()(std::int64_t b) const {
    const std::int64_t before = f.sums[b] - f.counts[b];
    const game::State& after = f.boards[b];
    const bool ended = has_ended(f, b);
    if (f.rollout.board == nullptr) {
      std::int64_t rows = before & kRowsMask;
      game::State swapped;
      const int teams = teams_of(f, b);
      SD_ROLLED for (int team = 0; team < teams; ++team) {
        if (team == 1) swap_sides(after, swapped);
        rows += settle(b, team, rows, ended, team == 0 ? after : swapped);
      }
    }
    if (!ended) return;
    const std::int64_t number = *f.ended + (before >> 32) + 1, place = (number - 1) % f.ended_capacity;
    std::int64_t* record = f.records + place * kEndedFields;
    const std::int64_t* running = f.running + b * play::kFields;
    record[kEndedNumber] = number;
    record[kEndedStarted] = running[play::kStarted];
    for (int snake = 0; snake < play::kTeamSize; ++snake)
      record[kEndedSnakes + snake] = running[play::kReturns + snake];
    for (int team = 0; team < 2; ++team) record[kEndedTeams + team] = after.team_return(team);
    record[kEndedSteps] = running[play::kSteps];
    record[kEndedOpponent] = running[play::kOpponent];
    f.record_epsilon[place] = f.running_epsilon[b];
    start_game(f, b, *f.started + (before >> 32) + 1);
  }
};

/// Advances all counters; one index for all boards.
struct CountStep {
  BoardArrays f;

  SD_HD void operator()(std::int64_t) const {
    const std::int64_t all = f.sums[f.seats.boards - 1], rows = all & kRowsMask, ended = all >> 32;
    f.counter[learners::kNext] = (f.counter[learners::kNext] + rows) % f.capacity;
    const std::int64_t size = f.counter[learners::kSize] + rows;
    f.counter[learners::kSize] = size < f.capacity ? size : f.capacity;
    f.counter[learners::kAppended] += rows;
    *f.started += ended;
    *f.ended += ended;
    if (f.decays) *f.epsilon *= f.place[f.seats.count()];
    if (f.rollout.board != nullptr) ++f.rollout.counter[kStep];
  }
};

/// What a team sees on all boards, or on some of them.
struct Seen {
  play::ObsSpec obs_spec;
  const game::State* boards;
  const std::int64_t* index;  // which boards; null: all
  float* out;                 // [count, 3, features + 1]
  int team = 0;

  [[nodiscard]] SD_HD const game::State& board(std::int64_t i) const {
    return boards[index != nullptr ? index[i] : i];
  }
  [[nodiscard]] SD_HD float* row(std::int64_t i) const {
    return out + i * play::kTeamSize * (obs_spec.features() + 1);
  }
};

/// 26 or 30 features.
struct SeePlain {
  Seen seen;

  SD_HD void operator()(std::int64_t i) const {
    seen.obs_spec.write_plain(seen.board(i), seen.team, seen.row(i));
  }
};

/// The window or the view.
struct SeeView {
  static constexpr int kLanes = game::kSurveyLanes, kPhases = game::kSurveyPhases + 2;
  struct Shared {
    game::Surveyed board;
    game::view::Surroundings around;
  };
  Seen seen;

  SD_HD void operator()(int phase, std::int64_t i, int lane, Shared& s) const {
    const play::ObsSpec& obs_spec = seen.obs_spec;
    const bool floods = game::has_move_features(obs_spec.kind);
    if (phase < game::kSurveyPhases) {
      game::survey(phase, seen.board(i), lane, floods, s.board, &s.around);
    } else if (phase == game::kSurveyPhases) {
      const int jobs = game::kTeamSize * (floods ? 1 + game::kMoves : 1);
      SD_ROLLED for (int k = lane; k < jobs; k += kLanes) {
        const int place = k % game::kTeamSize, snake = seen.team * game::kTeamSize + place,
                  d = k / game::kTeamSize - 1, up = obs_spec.up(s.board.state, snake);
        float* const row = seen.row(i) + place * (obs_spec.features() + 1);
        if (d < 0) {
          game::view::write_one(s.board.state, s.around, seen.team, snake, up, row);
        } else {
          game::view::write_move_features(
              game::move_features_of(s.board, snake, d),
              (game::open_moves(s.board.state, snake) >> d & 1U) != 0,
              row + game::view::kFeatures + game::move_of(up, d) * game::view::kMoveFeatures);
        }
      }
    } else if (lane < play::kTeamSize) {
      obs_spec.finish_view(s.board.state, seen.team, seen.row(i) + lane * (obs_spec.features() + 1));
    }
  }
};

/// The six snakes' graphs as one snake of team A sees them; three indices for each board.
struct WriteGraphs {
  int view_radius;
  const game::State* boards;
  float* out;  // [count, game::kGraphsFloats]

  SD_HD void operator()(std::int64_t i) const {
    const game::State& board = boards[i / play::kTeamSize];
    float hidden[game::kSnakes];  // known from the graphs
    game::write_graphs(board, 0, {board.head(static_cast<int>(i % play::kTeamSize)), view_radius},
                       out + i * game::kGraphsFloats, hidden);
  }
};

/// A step with random moves, for measurements; boards that are done start a new game.
struct RandomBoard {
  game::State* boards;
  std::uint32_t* games;
  std::uint64_t seed;

  SD_HD void operator()(std::int64_t b) const {
    game::State board = boards[b];
    const std::uint64_t stream = play::stream_of(b, games[b]);
    game::Actions actions;
    for (int team = 0; team < 2; ++team)
      game::act_by_sight(game::Opponent::kLevel0, board, team, actions, seed, stream);
    game::PhiloxChance chance(seed, stream);
    if (game::step(board, actions, chance).done) {
      game::PhiloxChance next(seed, play::stream_of(b, ++games[b]));
      game::reset(board, next);
    }
    boards[b] = board;
  }
};

#ifdef SD_HAVE_KERNELS
/// Queue work on a CUDA stream. Return cudaSuccess, or the error.
int launch(const TerritoryMoves& work, std::int64_t count, void* stream);
int launch(const StartBoard& work, std::int64_t count, void* stream);
int launch(const FrozenMoves& work, std::int64_t count, void* stream);
int launch(const PlayBoard& work, std::int64_t count, void* stream);
int launch(const SettleBoard<false>& work, std::int64_t count, void* stream);
int launch(const SettleBoard<true>& work, std::int64_t count, void* stream);
int launch(const CountStep& work, std::int64_t count, void* stream);
int launch(const SeePlain& work, std::int64_t count, void* stream);
int launch(const SeeView& work, std::int64_t count, void* stream);
int launch(const WriteGraphs& work, std::int64_t count, void* stream);
int launch(const RandomBoard& work, std::int64_t count, void* stream);
#endif

}  // namespace snake_ddp::rollout
