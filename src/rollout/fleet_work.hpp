// What a fleet does with one board, as pieces of work for the host or a device. All pointers are to the fleet's and
// replay's tensors on that device.
#pragma once

#include <cstdint>
#include <cstring>

#include "snake_ddp/agents/plan.hpp"
#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/play/turn.hpp"
#include "snake_ddp/replay/device_counters.hpp"

namespace snake_ddp::rollout {

/// Fields of an ended game's record.
enum EndedField : std::int64_t {
  kEndedNumber,
  kEndedStarted,
  kEndedSnakes,
  kEndedTeams = kEndedSnakes + play::kTeam,
  kEndedSteps = kEndedTeams + 2,
  kEndedOpponent,
  kEndedFields
};

struct FleetArrays {
  play::TurnRules rules;
  agents::OpponentPlan opponents;
  std::int64_t num_boards, capacity, ended_capacity;
  bool best;    // the policy answers values
  bool decays;  // epsilon decays; else each board has its own, which is its place
  bool stores_boards;

  game::State* boards;
  std::int64_t* games;    // dealt so far
  std::int64_t* running;  // [boards, kFields]
  double* running_epsilon;
  float* window;  // [boards, n_step, kWindowWidth]
  std::int64_t *window_size, *window_next;
  double* epsilon;                // one number
  const double* place;            // [boards + 1], factors on it, or the boards' own
  std::int64_t *started, *ended;  // one number each
  const float* values;            // [boards, 12]
  std::int64_t* counts;           // ended << 32 | rows for replay, of each board in this step
  const std::int64_t* sums;       // the same, of it and all boards before it
  std::int64_t* records;          // [ended_capacity, kEndedFields], a ring
  double* record_epsilon;
  float* observations;            // [boards, 3, features + 1]
  float* column[play::kSources];  // replay's; null where it has none
  std::int64_t* counter;          // replay's counters
};

inline constexpr std::int64_t kRowsMask = (std::int64_t{1} << 32) - 1;

SD_HD inline void deal(const FleetArrays& f, std::int64_t b, std::int64_t number) {
  const auto games = static_cast<std::uint32_t>(++f.games[b]);
  game::PhiloxChance chance(f.rules.seed, play::stream_of(b, games));
  game::State board;
  game::reset(board, chance);
  f.boards[b] = board;
  std::int64_t* running = f.running + b * play::kFields;
  for (std::int64_t k = 0; k < play::kFields; ++k) running[k] = 0;
  running[play::kStarted] = number;
  running[play::kOpponent] = static_cast<std::int64_t>(f.opponents.of(number));
  f.running_epsilon[b] = 0;
}

SD_HD inline bool has_ended(const FleetArrays& f, std::int64_t b) {
  return f.boards[b].done() || f.running[b * play::kFields + play::kSteps] >= f.rules.episode_length;
}

/// Moves, the game's step, rewards; what is to be stored is counted.
struct PlayBoard {
  FleetArrays f;

  SD_HD void operator()(std::int64_t b) const {
    game::State board = f.boards[b];
    const std::uint64_t stream = play::stream_of(b, static_cast<std::uint32_t>(f.games[b]));
    std::int64_t* running = f.running + b * play::kFields;
    const double epsilon = f.decays ? *f.epsilon * f.place[b] : f.place[b];
    float* row = f.window + (b * f.rules.n_step + f.window_next[b]) * play::kWindowWidth;
    memcpy(row, &board, sizeof board);
    game::Actions actions{};
    play::choose(f.rules, board, stream, 0, epsilon, f.best, f.values + b * play::kActionFloats, actions,
                 row + play::kBoardFloats);
    agents::act(static_cast<agents::Opponent>(running[play::kOpponent]), board, 1, actions, f.rules.seed,
                stream);
    game::PhiloxChance chance(f.rules.seed, stream);
    const game::StepResult result = game::step(board, actions, chance);
    play::team_reward(f.rules, board, result, 0, row + play::kBoardFloats + play::kActionFloats);
    f.boards[b] = board;
    for (int snake = 0; snake < play::kTeam; ++snake) running[play::kReturns + snake] += result.reward[snake];
    ++running[play::kSteps];
    f.running_epsilon[b] = epsilon;
    const std::int64_t n = f.rules.n_step, size = f.window_size[b] < n ? f.window_size[b] + 1 : n;
    f.window_size[b] = size;
    f.window_next[b] = (f.window_next[b] + 1) % n;
    f.counts[b] = has_ended(f, b) ? (std::int64_t{1} << 32 | size) : size == n ? 1 : 0;
  }
};

/// Stores transitions; writes down a game that ended, and deals the next one.
struct SettleBoard {
  FleetArrays f;

  SD_HD void put(play::Source source, std::int64_t slot, const float* from, std::int64_t width) const {
    if (f.column[source] != nullptr)
      memcpy(f.column[source] + slot * width, from, static_cast<std::size_t>(width) * sizeof(float));
  }

  SD_HD void put_board(play::Source source, std::int64_t slot, const game::State& board) const {
    if (f.stores_boards) {
      memcpy(f.column[source] + slot * play::kBoardFloats, &board, sizeof board);
    } else {
      f.rules.sight.write_plain(board, 0,
                                f.column[source] + slot * play::kTeam * (f.rules.sight.features() + 1));
    }
  }

  SD_HD void operator()(std::int64_t b) const {
    const std::int64_t n = f.rules.n_step, rows = f.counts[b] & kRowsMask, before = f.sums[b] - f.counts[b];
    const game::State after = f.boards[b];
    const float* window = f.window + b * n * play::kWindowWidth;
    const bool ended = has_ended(f, b);
    for (std::int64_t k = 0; k < rows; ++k) {
      const std::int64_t slot = (f.counter[replay::kNext] + (before & kRowsMask) + k) % f.capacity,
                         count = f.window_size[b], oldest = (f.window_next[b] - count + n) % n;
      const float* first = window + oldest * play::kWindowWidth;
      const play::Summed transition = play::summed(f.rules, window, oldest, count, after, after.done());
      game::State seen;
      memcpy(&seen, first, sizeof seen);
      put_board(play::kObservation, slot, seen);
      put_board(play::kNextObservation, slot, after);
      put(play::kAction, slot, first + play::kBoardFloats, play::kActionFloats);
      put(play::kReward, slot, transition.reward, play::kTeam);
      put(play::kDiscount, slot, transition.discount, play::kTeam);
      put(play::kNextMoves, slot, transition.next_moves, play::kActionFloats);
      --f.window_size[b];
    }
    if (!ended) return;
    const std::int64_t number = *f.ended + (before >> 32) + 1, place = (number - 1) % f.ended_capacity;
    std::int64_t* record = f.records + place * kEndedFields;
    const std::int64_t* running = f.running + b * play::kFields;
    record[kEndedNumber] = number;
    record[kEndedStarted] = running[play::kStarted];
    for (int snake = 0; snake < play::kTeam; ++snake)
      record[kEndedSnakes + snake] = running[play::kReturns + snake];
    for (int team = 0; team < 2; ++team) record[kEndedTeams + team] = after.team_return(team);
    record[kEndedSteps] = running[play::kSteps];
    record[kEndedOpponent] = running[play::kOpponent];
    f.record_epsilon[place] = f.running_epsilon[b];
    deal(f, b, *f.started + (before >> 32) + 1);
  }
};

/// What team A sees.
struct LookAtBoard {
  FleetArrays f;

  SD_HD void operator()(std::int64_t b) const {
    f.rules.sight.write(f.boards[b], 0, f.observations + b * play::kTeam * (f.rules.sight.features() + 1));
  }
};

/// Moves all counters on; one piece of work for the fleet.
struct CountStep {
  FleetArrays f;

  SD_HD void operator()(std::int64_t) const {
    const std::int64_t all = f.sums[f.num_boards - 1], rows = all & kRowsMask, ended = all >> 32;
    f.counter[replay::kNext] = (f.counter[replay::kNext] + rows) % f.capacity;
    const std::int64_t size = f.counter[replay::kSize] + rows;
    f.counter[replay::kSize] = size < f.capacity ? size : f.capacity;
    f.counter[replay::kAppended] += rows;
    *f.started += ended;
    *f.ended += ended;
    if (f.decays) *f.epsilon *= f.place[f.num_boards];
  }
};

/// See show_boards.
struct ShowBoard {
  play::Sight sight;
  const float* storage;
  const std::int64_t* index;
  float* out;

  SD_HD void operator()(std::int64_t i) const {
    game::State board;
    memcpy(&board, storage + index[i] * play::kBoardFloats, sizeof board);
    sight.write(board, 0, out + i * play::kTeam * (sight.features() + 1));
  }
};

/// A step with random moves, for measuring; boards that are done are dealt anew. With `observations` these are written.
struct WanderBoard {
  game::State* boards;
  std::uint32_t* games;
  float* observations;  // [boards, 3, features + 1], or null
  play::Sight sight;
  std::uint64_t seed;

  SD_HD void operator()(std::int64_t b) const {
    game::State board = boards[b];
    const std::uint64_t stream = play::stream_of(b, games[b]);
    game::Actions actions;
    for (int team = 0; team < 2; ++team)
      agents::act(agents::Opponent::kLevel0, board, team, actions, seed, stream);
    game::PhiloxChance chance(seed, stream);
    if (game::step(board, actions, chance).done) {
      game::PhiloxChance next(seed, play::stream_of(b, ++games[b]));
      game::reset(board, next);
    }
    boards[b] = board;
    if (observations != nullptr)
      sight.write(board, 0, observations + b * play::kTeam * (sight.features() + 1));
  }
};

#ifdef SD_HAVE_KERNELS
/// Queue work on a CUDA stream. Return cudaSuccess, or why they could not.
int launch(const PlayBoard& work, std::int64_t count, void* stream);
int launch(const SettleBoard& work, std::int64_t count, void* stream);
int launch(const LookAtBoard& work, std::int64_t count, void* stream);
int launch(const CountStep& work, std::int64_t count, void* stream);
int launch(const ShowBoard& work, std::int64_t count, void* stream);
int launch(const WanderBoard& work, std::int64_t count, void* stream);
#endif

}  // namespace snake_ddp::rollout
