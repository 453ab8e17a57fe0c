// What a fleet does with one board, as functors for the host or a device. All pointers are to the fleet's and
// replay's tensors on that device.
#pragma once

#include <cstdint>

#include "snake_ddp/agents/plan.hpp"
#include "snake_ddp/base/chunk.hpp"
#include "snake_ddp/encode/snake_graph.hpp"
#include "snake_ddp/encode/survey.hpp"
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
  bool best;    // the policy's outputs are values
  bool decays;  // epsilon decays; otherwise each board has its own, from `place`

  game::State* boards;
  std::int64_t* games;    // started so far, by board
  std::int64_t* running;  // [boards, kFields]
  double* running_epsilon;
  float* window;  // [boards, n_step, kAlignedWindowWidth]
  std::int64_t *window_size, *window_next;
  double* epsilon;                // one number
  const double* place;            // [boards + 1], factors on `epsilon`, or the boards' own epsilons
  std::int64_t *started, *ended;  // one number each
  const float* values;            // [boards, 12]
  std::uint8_t* rivals;           // [boards, 3], moves of team B where it plays by the territory heuristic
  std::int64_t* counts;           // games ended << 32 | rows for replay, of each board in this step
  const std::int64_t* sums;       // the same, of it and all boards before it
  std::int64_t* records;          // [ended_capacity, kEndedFields], a ring
  double* record_epsilon;
  float* column[play::kSources];  // replay's; null where it has none
  std::int64_t* counter;          // replay's counters
};

inline constexpr std::int64_t kRowsMask = (std::int64_t{1} << 32) - 1;

SD_HD inline void start_game(const FleetArrays& f, std::int64_t b, std::int64_t number) {
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

/// The board of a row's first step in the window.
SD_HD inline const game::State& board_in(const float* row) {
  return *reinterpret_cast<const game::State*>(row);
}

/// In quarters: a thread has no registers for a whole board.
SD_HD inline void put_board(float* row, const game::State& board) {
  constexpr std::size_t kQuarter = sizeof board / 4;
  for (int k = 0; k < 4; ++k) base::chunk<kQuarter>(row, k) = base::chunk<kQuarter>(&board, k);
}

/// Team B's moves where it plays by the territory heuristic; before PlayBoard.
struct TerritoryMoves {
  static constexpr int kLanes = encode::kSurveyLanes, kPhases = encode::kSurveyPhases + 2;
  struct Shared {
    encode::Surveyed board;
    game::Outlook outlook[play::kTeam][game::kMoves];
  };
  FleetArrays f;

  SD_HD void operator()(int phase, std::int64_t b, int lane, Shared& s) const {
    if (f.running[b * play::kFields + play::kOpponent] != static_cast<int>(agents::Opponent::kTerritory))
      return;
    if (phase < encode::kSurveyPhases) {
      encode::survey(phase, f.boards[b], lane, true, s.board, nullptr);
    } else if (phase == encode::kSurveyPhases) {
      SD_ROLLED for (int k = lane; k < game::kTeamSize * game::kMoves; k += kLanes)
          s.outlook[k / game::kMoves][k % game::kMoves] =
          encode::outlook_of(s.board, game::kTeamSize + k / game::kMoves, k % game::kMoves);
    } else if (lane == 0) {
      game::Actions actions;
      const auto look = [&](int snake) { return s.outlook[snake - play::kTeam]; };
      agents::territory::choose(s.board.state, s.board.reach, 1, look, actions);
      for (int k = 0; k < play::kTeam; ++k) f.rivals[b * play::kTeam + k] = actions.of[play::kTeam + k];
    }
  }
};

/// Moves, the game's step, rewards; counts what is to be stored.
struct PlayBoard {
  FleetArrays f;

  SD_HD void operator()(std::int64_t b) const {
    game::State board = f.boards[b];
    const std::uint64_t stream = play::stream_of(b, static_cast<std::uint32_t>(f.games[b]));
    std::int64_t* running = f.running + b * play::kFields;
    const double epsilon = f.decays ? *f.epsilon * f.place[b] : f.place[b];
    float* row = f.window + (b * f.rules.n_step + f.window_next[b]) * play::kAlignedWindowWidth;
    put_board(row, f.boards[b]);
    game::Actions actions{};
    play::choose(f.rules, board, stream, 0, epsilon, f.best, f.values + b * play::kActionFloats, actions,
                 row + play::kBoardFloats);
    const auto opponent = static_cast<agents::Opponent>(running[play::kOpponent]);
    if (opponent == agents::Opponent::kTerritory) {
      for (int k = 0; k < play::kTeam; ++k) actions.of[play::kTeam + k] = f.rivals[b * play::kTeam + k];
    } else {
      agents::act_by_sight(opponent, board, 1, actions, f.rules.seed, stream);
    }
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

/// Stores transitions, records an ended game, and starts the next one. `kBoards`: replay stores boards, otherwise 26
/// or 30 features.
template <bool kBoards>
struct SettleBoard {
  FleetArrays f;

  template <int kWidth>
  SD_HD void put(play::Source source, std::int64_t slot, const float* from) const {
    if (f.column[source] == nullptr) return;
    for (int k = 0; k < kWidth; ++k) f.column[source][slot * kWidth + k] = from[k];
  }

  SD_HD void put_seen(play::Source source, std::int64_t slot, const game::State& board) const {
    if constexpr (kBoards) {
      put_board(f.column[source] + slot * play::kBoardFloats, board);
    } else {
      f.rules.sight.write_plain(board, 0,
                                f.column[source] + slot * play::kTeam * (f.rules.sight.features() + 1));
    }
  }

  SD_HD void operator()(std::int64_t b) const {
    const std::int64_t n = f.rules.n_step, rows = f.counts[b] & kRowsMask, before = f.sums[b] - f.counts[b];
    const game::State& after = f.boards[b];
    const float* window = f.window + b * n * play::kAlignedWindowWidth;
    const bool ended = has_ended(f, b);
    for (std::int64_t k = 0; k < rows; ++k) {
      const std::int64_t slot = (f.counter[replay::kNext] + (before & kRowsMask) + k) % f.capacity,
                         count = f.window_size[b], oldest = (f.window_next[b] - count + n) % n;
      const float* first = window + oldest * play::kAlignedWindowWidth;
      const play::Summed transition =
          play::summed(f.rules, window, oldest, count, after, after.done(), play::kAlignedWindowWidth);
      put_seen(play::kObservation, slot, board_in(first));
      put_seen(play::kNextObservation, slot, after);
      put<play::kActionFloats>(play::kAction, slot, first + play::kBoardFloats);
      put<play::kTeam>(play::kReward, slot, transition.reward);
      put<play::kTeam>(play::kDiscount, slot, transition.discount);
      put<play::kActionFloats>(play::kNextMoves, slot, transition.next_moves);
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
    start_game(f, b, *f.started + (before >> 32) + 1);
  }
};

/// Advances all counters; one index for the whole fleet.
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

/// What team A sees on all boards, or on some of them.
struct Seen {
  play::Sight sight;
  const game::State* boards;
  const std::int64_t* index;  // which boards; null: all
  float* out;                 // [count, 3, features + 1]

  [[nodiscard]] SD_HD const game::State& board(std::int64_t i) const {
    return boards[index != nullptr ? index[i] : i];
  }
  [[nodiscard]] SD_HD float* row(std::int64_t i) const {
    return out + i * play::kTeam * (sight.features() + 1);
  }
};

/// 26 or 30 features.
struct SeePlain {
  Seen seen;

  SD_HD void operator()(std::int64_t i) const { seen.sight.write_plain(seen.board(i), 0, seen.row(i)); }
};

/// The window or the view.
struct SeeView {
  static constexpr int kLanes = encode::kSurveyLanes, kPhases = encode::kSurveyPhases + 2;
  struct Shared {
    encode::Surveyed board;
    encode::view::Surroundings around;
  };
  Seen seen;

  SD_HD void operator()(int phase, std::int64_t i, int lane, Shared& s) const {
    const play::Sight& sight = seen.sight;
    const bool floods = encode::has_outlooks(sight.kind);
    if (phase < encode::kSurveyPhases) {
      encode::survey(phase, seen.board(i), lane, floods, s.board, &s.around);
    } else if (phase == encode::kSurveyPhases) {
      const int jobs = game::kTeamSize * (floods ? 1 + game::kMoves : 1);
      SD_ROLLED for (int k = lane; k < jobs; k += kLanes) {
        const int snake = k % game::kTeamSize, d = k / game::kTeamSize - 1,
                  up = sight.up(s.board.state, snake);
        float* const row = seen.row(i) + snake * (sight.features() + 1);
        if (d < 0) {
          encode::view::write_one(s.board.state, s.around, 0, snake, up, row);
        } else {
          encode::view::write_outlook(
              encode::outlook_of(s.board, snake, d),
              (encode::open_moves(s.board.state, snake) >> d & 1U) != 0,
              row + encode::view::kFeatures + encode::move_of(up, d) * encode::view::kOutlook);
        }
      }
    } else if (lane < play::kTeam) {
      sight.finish_view(s.board.state, 0, seen.row(i) + lane * (sight.features() + 1));
    }
  }
};

/// The six snakes' graphs as one snake of team A sees them; three indices for each board.
struct WriteGraphs {
  int view_radius;
  const game::State* boards;
  float* out;  // [count, encode::kGraphsFloats]

  SD_HD void operator()(std::int64_t i) const {
    const game::State& board = boards[i / play::kTeam];
    float hidden[game::kSnakes];  // known from the graphs
    encode::write_graphs(board, 0, {board.head(static_cast<int>(i % play::kTeam)), view_radius},
                         out + i * encode::kGraphsFloats, hidden);
  }
};

/// A step with random moves, for measurements; boards that are done start a new game.
struct WanderBoard {
  game::State* boards;
  std::uint32_t* games;
  std::uint64_t seed;

  SD_HD void operator()(std::int64_t b) const {
    game::State board = boards[b];
    const std::uint64_t stream = play::stream_of(b, games[b]);
    game::Actions actions;
    for (int team = 0; team < 2; ++team)
      agents::act_by_sight(agents::Opponent::kLevel0, board, team, actions, seed, stream);
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
int launch(const PlayBoard& work, std::int64_t count, void* stream);
int launch(const SettleBoard<false>& work, std::int64_t count, void* stream);
int launch(const SettleBoard<true>& work, std::int64_t count, void* stream);
int launch(const CountStep& work, std::int64_t count, void* stream);
int launch(const SeePlain& work, std::int64_t count, void* stream);
int launch(const SeeView& work, std::int64_t count, void* stream);
int launch(const WriteGraphs& work, std::int64_t count, void* stream);
int launch(const WanderBoard& work, std::int64_t count, void* stream);
#endif

}  // namespace snake_ddp::rollout
