#include "io/verify_trace.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/game_log.hpp"
#include "io/json_fields.hpp"
#include "io/lines.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/game/reward.hpp"

namespace snake_ddp::io {

namespace {

using game::kSnakes;
using game::kTeamSize;
using nlohmann::json;

// ---- Replaying.

/// The first field in which engine and record differ; `field` is empty where nothing does.
struct Difference {
  std::string field, expected, got;
};

template <class Expected, class Got>
bool differ(Difference& difference, const std::string& name, const Expected& expected, const Got& got) {
  if (std::equal(std::begin(expected), std::end(expected), std::begin(got), std::end(got))) return false;
  difference = {name, fmt::format("[{}]", fmt::join(expected, ",")),
                fmt::format("[{}]", fmt::join(got, ","))};
  return true;
}

/// What a snake may have chosen, and the direction that it then took.
struct Move {
  int action, turned;
};
using Moves = std::array<Move, kSnakes>;

/// Steps `state` with these moves and the record's beans, and compares.
Difference replay(game::State& state, const RecordedStep& step, const Moves& moves) {
  game::Actions actions;
  game::RecordedChance chance;
  PerSnake turned{};
  for (std::size_t i = 0; i < kSnakes; ++i) {
    actions.of[i] = static_cast<std::uint8_t>(moves[i].action);
    chance.turned[i] = static_cast<std::uint8_t>(moves[i].turned);
    turned[i] = moves[i].turned;
  }
  chance.beans = step.after.beans.data();
  chance.n_beans = static_cast<int>(step.after.beans.size());
  const game::StepResult result = game::step(state, actions, chance);
  const game::Position position = game::position_of(state);
  Difference found;
  if (differ(found, "turned", turned, result.turned)) return found;
  if (differ(found, "hit", step.hit, result.hit)) return found;
  if (differ(found, "reward", step.reward, result.reward)) return found;
  for (std::size_t i = 0; i < kSnakes; ++i)
    if (differ(found, fmt::format("snakes[{}]", i), step.after.snakes[i], position.snakes[i])) return found;
  PerSnake directions = step.after.directions;
  for (std::size_t i = 0; i < kSnakes; ++i)
    if (directions[i] == kUnknown) directions[i] = position.directions[i];
  if (differ(found, "directions", directions, position.directions)) return found;
  if (chance.illegal != nullptr) {
    return {"beans", "new beans that the rules allow",
            fmt::format("{} in [{}]", chance.illegal, fmt::join(step.after.beans, ","))};
  }
  if (differ(found, "beans", step.after.beans, position.beans)) return found;
  if (step.score) {
    PerSnake score{};
    for (int i = 0; i < kSnakes; ++i)
      score[static_cast<std::size_t>(i)] = state.length(i) - game::kStartLength;
    if (differ(found, "score", *step.score, score)) return found;
  }
  if (step.done) differ(found, "done", std::array{*step.done}, std::array{result.done});
  return found;
}

/// A trace has each snake's move. The platform's log lacks the direction that replaced a reversal, and may lack the
/// actions: the body of a surviving snake shows its move; one that died and respawned elsewhere may have taken any of
/// three directions.
std::vector<Move> possible_moves(const game::State& state, const RecordedStep& step, std::size_t i) {
  const int action = step.actions[i], back = state.direction(static_cast<int>(i)) ^ 1;
  if (step.turned[i] != kUnknown) return {{action, step.turned[i]}};
  if (action != kUnknown && action != back) return {{action, action}};
  const int seen = step.hit[i] == 0 ? direction_of(step.after.snakes[i]) : kUnknown;
  if (seen != kUnknown) return {{action == kUnknown ? seen : action, seen}};
  std::vector<Move> moves;
  for (int turned = 0; turned < 4; ++turned)
    if (turned != back) moves.push_back({action == kUnknown ? turned : action, turned});
  return moves;
}

/// Steps `state` as recorded. Returns the first difference if no possible moves lead to the recorded board.
Difference replay(game::State& state, const RecordedStep& step) {
  std::array<std::vector<Move>, kSnakes> possible;
  std::size_t ways = 1;
  for (std::size_t i = 0; i < kSnakes; ++i) {
    possible[i] = possible_moves(state, step, i);
    ways *= possible[i].size();
  }
  Difference first;
  for (std::size_t way = 0; way < ways; ++way) {
    Moves moves{};
    std::size_t rest = way;
    for (std::size_t i = 0; i < kSnakes; ++i) {
      moves[i] = possible[i][rest % possible[i].size()];
      rest /= possible[i].size();
    }
    game::State after = state;
    const Difference difference = replay(after, step, moves);
    if (difference.field.empty()) {
      state = after;
      return {};
    }
    if (way == 0) first = difference;
  }
  return first;
}

/// Plays one more step of the record.
Difference play_on(game::State& state, const RecordedStep& step) {
  return state.done() ? Difference{"done", "a step after the end", "a game that is over"}
                      : replay(state, step);
}

void verify_game(const RecordedGame& record, std::int64_t number, const std::string& file,
                 TraceReport& report) {
  ++report.games;
  report.steps += static_cast<std::int64_t>(record.steps.size());
  const auto mismatch = [&](std::size_t step, std::int64_t line, const Difference& d) {
    if (++report.mismatches == 1)
      report.first_mismatch = fmt::format("{}:{}: game {}, step {}, {}: expected {}, got {}", file, line,
                                          number, step, d.field, d.expected, d.got);
  };
  game::State state = game::make_state({record.start});
  PerSnake sums{};
  for (std::size_t k = 0; k < record.steps.size(); ++k) {
    const RecordedStep& step = record.steps[k];
    const Difference difference = play_on(state, step);
    if (!difference.field.empty())  // the boards differ from here on: later steps prove nothing
      return mismatch(k + 1, step.line, difference);
    for (std::size_t i = 0; i < kSnakes; ++i) sums[i] += step.reward[i];
  }
  const std::int64_t last_line = record.steps.empty() ? record.line : record.steps.back().line;
  Difference difference;
  if (!state.done() && !record.cut_off) {
    difference = {"done", "the end of the record", "a game that continues"};
  } else if (record.n_return) {
    differ(difference, "n_return", *record.n_return, sums);
  }
  if (!difference.field.empty()) mismatch(record.steps.size(), last_line, difference);
}

// ---- Observations, opponents, rewards.

using Key = std::pair<std::int64_t, std::int64_t>;  // game, step

struct TracedGame {
  game::State state;
  PerSnake reward{};
};

std::map<Key, TracedGame> states_of(const std::string& traces) {
  std::map<Key, TracedGame> states;
  std::int64_t number = 0;
  read_games(traces, [&](const RecordedGame& record) {
    const auto keep = [&](const RecordedBoard& board, game::Position position, std::int64_t line,
                          const PerSnake& reward) {
      static_cast<game::Layout&>(position) = board;
      const std::string fault = game::fault_of(position);
      if (!fault.empty()) throw core::FileError(fmt::format("{}:{}: not a board: {}", traces, line, fault));
      states[{number, position.step - 1}] = {game::make_state(position), reward};
    };
    game::Position position;
    keep(record.start, position, record.line, {});
    for (const RecordedStep& step : record.steps) {
      if (!step.done) {
        throw core::FileError(fmt::format(
            "{}:{}: a game log lacks parts of a board; give --traces a trace file", traces, step.line));
      }
      ++position.step;
      position.done = *step.done;
      for (std::size_t i = 0; i < kSnakes; ++i) position.returns[i / kTeamSize] += step.reward[i];
      keep(step.after, position, step.line, step.reward);
    }
    ++number;
  });
  return states;
}

// ---- Reading recorded observations.

/// A list of `n_rows` lists of `n_columns` numbers.
std::vector<double> numbers(const json& value, std::size_t n_rows, std::size_t n_columns, const char* name,
                            const FilePosition& position) {
  std::vector<double> result;
  bool good = value.is_array() && value.size() == n_rows;
  for (std::size_t r = 0; good && r < n_rows; ++r) {
    good = value[r].is_array() && value[r].size() == n_columns;
    for (std::size_t c = 0; good && c < n_columns; ++c) {
      good = value[r][c].is_number();
      if (good) result.push_back(value[r][c].get<double>());
    }
  }
  if (!good)
    position.fail(fmt::format("field \"{}\" is not a list of {} of {}", name, core::counted(n_rows, "list"),
                              core::counted(n_columns, "number")));
  return result;
}

bool close(double expected, double got) {
  return std::abs(expected - got) <= 1e-5 * std::max(1.0, std::abs(expected));
}

// What a line of encodings says of the board at `at` and the program does not, the first of all; empty if they agree.
std::string difference_of(const json& line, const TracedGame& at, bool is_start,
                          const FilePosition& position) {
  std::string difference;
  const auto compare = [&difference](const std::string& what, double expected, double got) {
    if (difference.empty() && !close(expected, got))
      difference = fmt::format("{}: expected {}, got {}", what, expected, got);
  };
  for (const auto& [name, kind] :
       {std::pair{"obs26", game::ObsKind::k26}, std::pair{"obs30", game::ObsKind::k30}}) {
    const auto size = static_cast<std::size_t>(game::obs_size(kind));
    const std::vector<double> expected =
        numbers(field(line, name, position), kTeamSize, size, name, position);
    std::vector<float> got(kTeamSize * size);
    game::observe(kind, at.state, 0, got.data());
    for (std::size_t k = 0; k < got.size(); ++k)
      compare(fmt::format("{}, snake {}, feature {}", name, k / size, k % size), expected[k], got[k]);
  }
  for (const char* name : {"level1", "level2", "level3", "level4", "evasion"}) {
    const std::vector<int> expected = integers(field(line, name, position), kTeamSize, 0, 3, name, position);
    if (expected.size() != kTeamSize)
      position.fail(fmt::format("field \"{}\" is not a list of 3 actions", name));
    game::Actions got{};
    game::act(*game::try_opponent(name), at.state, 1, got, 0, 0);
    for (std::size_t i = 0; i < kTeamSize; ++i)
      compare(fmt::format("{}, snake {}", name, kTeamSize + i), expected[i], got.of[kTeamSize + i]);
  }
  if (is_start) return difference;  // no step leads there
  for (const auto& [name, rule] : {std::pair{"shaped_2021", game::RewardRule::k2021},
                                   std::pair{"shaped_v1_1", game::RewardRule::kV11}}) {
    const std::vector<double> expected = numbers(field(line, name, position), 5, kTeamSize, name, position);
    for (int k = 0; k < 5 * kTeamSize; ++k) {
      const int code = k / kTeamSize, snake = k % kTeamSize;
      compare(fmt::format("{}, score code {}, snake {}", name, code, snake),
              expected[static_cast<std::size_t>(k)],
              game::shaped_reward(rule, at.state, snake, at.reward[static_cast<std::size_t>(snake)], code));
    }
  }
  return difference;
}

}  // namespace

TraceReport verify_traces(const std::vector<std::string>& files) {
  TraceReport report{};
  for (const std::string& file : files) {
    std::int64_t number = 0;
    read_games(file, [&](const RecordedGame& record) { verify_game(record, number++, file, report); });
  }
  return report;
}

std::vector<game::State> boards_of(const RecordedGame& record, const std::string& file) {
  std::vector<game::State> boards = {game::make_state({record.start})};
  for (const RecordedStep& step : record.steps) {
    game::State next = boards.back();
    const Difference d = play_on(next, step);
    if (!d.field.empty()) {
      throw core::FileError(fmt::format("{}:{}: not a game by the rules: step {}, {}: expected {}, got {}",
                                        file, step.line, boards.size(), d.field, d.expected, d.got));
    }
    boards.push_back(next);
  }
  return boards;
}

EncodingReport verify_encodings(const std::string& encodings, const std::string& traces) {
  const std::map<Key, TracedGame> states = states_of(traces);
  EncodingReport report{};
  LineReader reader(encodings);
  std::string text;
  while (reader.next(text)) {
    if (text.empty()) continue;
    const FilePosition position{reader.path(), reader.line_number()};
    const json line = parsed(text, position);
    const Key key{integer(field(line, "trace_game", position), 0, INT32_MAX, "trace_game", position),
                  integer(field(line, "step", position), 0, game::kMaxSteps, "step", position)};
    const auto at = states.find(key);
    if (at == states.end())
      position.fail(fmt::format("{} has no game {}, step {}", traces, key.first, key.second));
    ++report.states;
    const std::string difference = difference_of(line, at->second, key.second == 0, position);
    if (difference.empty()) continue;
    if (++report.mismatches == 1)
      report.first_mismatch = fmt::format("{}:{}: game {}, step {}, {}", encodings, reader.line_number(),
                                          key.first, key.second, difference);
  }
  if (report.states == 0) FilePosition{reader.path(), reader.line_number()}.fail("no state in this file");
  return report;
}

}  // namespace snake_ddp::io
