#include "snake_ddp/app/verify_trace.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "snake_ddp/agents/opponents.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/encode/observation.hpp"
#include "snake_ddp/encode/reward.hpp"
#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/io/lines.hpp"

namespace snake_ddp::app {

namespace {

using game::kBeans;
using game::kCells;
using game::kSnakes;
using game::kTeamSize;
using nlohmann::json;
using Six = std::array<int, kSnakes>;

// ---- Reading: every value is checked, a fault names file, line and field.

/// Where a value stands, for messages.
struct Place {
  const io::LineReader& reader;
  [[noreturn]] void fail(const std::string& what) const {
    throw base::FileError(fmt::format("{}:{}: {}", reader.path(), reader.line_number(), what));
  }
};

json parse(const std::string& line, const Place& place) {
  try {
    json value = json::parse(line);
    if (!value.is_object()) place.fail("not a JSON object");
    return value;
  } catch (const json::exception& e) {
    place.fail(fmt::format("not JSON: {}", e.what()));
  }
}

const json& field(const json& object, const char* name, const Place& place) {
  const auto at = object.find(name);
  if (at == object.end()) place.fail(fmt::format("field \"{}\" is missing", name));
  return *at;
}

int integer(const json& value, int low, int high, const char* name, const Place& place) {
  if (value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT32_MAX)) {
    const auto n = value.get<std::int64_t>();
    if (n >= low && n <= high) return static_cast<int>(n);
  }
  place.fail(fmt::format("field \"{}\": {} is not an integer {}..{}", name, value.dump(), low, high));
}

std::vector<int> integers(const json& value, std::size_t most, int low, int high, const char* name,
                          const Place& place) {
  if (!value.is_array()) place.fail(fmt::format("field \"{}\" is not a list", name));
  if (value.size() > most)
    place.fail(fmt::format("field \"{}\" has {} elements, at most {}", name, value.size(), most));
  std::vector<int> result;
  for (const json& element : value) result.push_back(integer(element, low, high, name, place));
  return result;
}

Six six(const json& line, const char* name, int low, int high, const Place& place) {
  const std::vector<int> values = integers(field(line, name, place), kSnakes, low, high, name, place);
  if (values.size() != kSnakes)
    place.fail(fmt::format("field \"{}\" has {} elements, not 6", name, values.size()));
  Six result{};
  std::copy(values.begin(), values.end(), result.begin());
  return result;
}

/// What a start line and a step line have in common.
struct Board {
  std::array<std::vector<int>, kSnakes> snakes;
  Six directions{};
  std::vector<int> beans;
};

Board read_board(const json& line, const Place& place) {
  Board board;
  const json& snakes = field(line, "snakes", place);
  if (!snakes.is_array() || snakes.size() != kSnakes) place.fail("field \"snakes\" is not a list of 6 lists");
  for (std::size_t i = 0; i < kSnakes; ++i)
    board.snakes[i] = integers(snakes[i], kCells, 0, kCells - 1, "snakes", place);
  board.directions = six(line, "directions", 0, 3, place);
  board.beans = integers(field(line, "beans", place), kBeans, 0, kCells - 1, "beans", place);
  return board;
}

struct StepLine {
  Six actions{}, turned{}, reward{}, hit{};
  Board after;
  bool done = false;
};

StepLine read_step(const json& line, const Place& place) {
  StepLine step;
  step.actions = six(line, "actions", 0, 3, place);
  step.turned = six(line, "turned", 0, 3, place);
  step.reward = six(line, "reward", -kCells, kCells, place);
  step.hit = six(line, "hit", 0, 1, place);
  step.after = read_board(line, place);
  const json& done = field(line, "done", place);
  if (!done.is_boolean()) place.fail("field \"done\" is not true or false");
  step.done = done.get<bool>();
  return step;
}

bool starts_game(const json& line) { return line.contains("game"); }

game::State read_start(const json& line, const Place& place) {
  const json& kind = field(line, "game", place);
  if (!kind.is_string() || kind.get<std::string>() != "snakes_3v3")
    place.fail(fmt::format("field \"game\" is {}, not \"snakes_3v3\"", kind.dump()));
  integer(field(line, "height", place), game::kRows, game::kRows, "height", place);
  integer(field(line, "width", place), game::kCols, game::kCols, "width", place);
  const Board board = read_board(line, place);
  if (board.beans.size() != kBeans)
    place.fail(fmt::format("field \"beans\" has {} elements, not 5", board.beans.size()));
  game::Position position;
  position.snakes = board.snakes;
  position.directions = board.directions;
  position.beans = board.beans;
  for (const std::vector<int>& body : position.snakes)
    if (body.size() != game::kStartLength)
      place.fail(fmt::format("a snake starts with {} cells, not 3", body.size()));
  const std::string fault = game::fault_of(position);
  if (!fault.empty()) place.fail("no start of a game: " + fault);
  return game::make_state(position);
}

// ---- Replaying.

/// The first field in which engine and record differ.
struct Difference {
  std::string field, expected, got;
};

template <class Expected, class Got>
bool differ(Difference& difference, const char* name, const Expected& expected, const Got& got) {
  if (std::equal(std::begin(expected), std::end(expected), std::begin(got), std::end(got))) return false;
  difference = {name, fmt::format("[{}]", fmt::join(expected, ",")),
                fmt::format("[{}]", fmt::join(got, ","))};
  return true;
}

/// Steps `state` as the line says; true and the first difference where the line says otherwise than the
/// rules.
bool replay(game::State& state, const StepLine& line, Difference& difference) {
  game::Actions actions;
  game::RecordedChance chance;
  for (int i = 0; i < kSnakes; ++i) {
    actions.of[i] = static_cast<std::uint8_t>(line.actions[i]);
    chance.turned[i] = static_cast<std::uint8_t>(line.turned[i]);
  }
  chance.beans = line.after.beans.data();
  chance.n_beans = static_cast<int>(line.after.beans.size());
  const game::StepResult result = game::step(state, actions, chance);
  const game::Position position = game::position_of(state);
  if (differ(difference, "turned", line.turned, std::vector<int>(result.turned, result.turned + kSnakes)))
    return true;
  if (differ(difference, "hit", line.hit, std::vector<int>(result.hit, result.hit + kSnakes))) return true;
  if (differ(difference, "reward", line.reward, std::vector<int>(result.reward, result.reward + kSnakes)))
    return true;
  for (int i = 0; i < kSnakes; ++i)
    if (differ(difference, fmt::format("snakes[{}]", i).c_str(), line.after.snakes[i], position.snakes[i]))
      return true;
  if (differ(difference, "directions", line.after.directions, position.directions)) return true;
  if (chance.illegal != nullptr) {
    difference = {"beans", "new beans that the rules allow",
                  fmt::format("{} in [{}]", chance.illegal, fmt::join(line.after.beans, ","))};
    return true;
  }
  if (differ(difference, "beans", line.after.beans, position.beans)) return true;
  return differ(difference, "done", std::array{line.done}, std::array{result.done});
}

/// What is called for each game of a file: games count from 0, steps from 1.
struct Visitor {
  std::function<void(const game::State& start, std::int64_t game)> on_start;
  std::function<void(const StepLine&, std::int64_t game, std::int64_t step, const Place&)> on_step;
  std::function<void(std::int64_t game, std::int64_t steps, const Place&)> on_end;
};

void visit_games(const std::string& file, const Visitor& visitor) {
  io::LineReader reader(file);
  const Place place{reader};
  std::string text;
  std::int64_t game = -1, step = 0;
  while (reader.next(text)) {
    if (text.empty()) continue;
    const json line = parse(text, place);
    if (starts_game(line)) {
      if (game >= 0) visitor.on_end(game, step, place);
      ++game;
      step = 0;
      visitor.on_start(read_start(line, place), game);
      continue;
    }
    if (game < 0) place.fail("a step before the first game's start line");
    visitor.on_step(read_step(line, place), game, ++step, place);
  }
  if (game < 0) place.fail("no game in this file");
  visitor.on_end(game, step, place);
}

void verify_file(const std::string& file, TraceReport& report) {
  game::State state{};
  bool skip = false;
  const auto mismatch = [&](std::int64_t game, std::int64_t step, const Place& place, const Difference& d) {
    ++report.mismatches;
    skip = true;  // the boards have parted: what follows says nothing
    if (report.mismatches == 1)
      report.first_mismatch = fmt::format("{}:{}: game {}, step {}, {}: expected {}, got {}", file,
                                          place.reader.line_number(), game, step, d.field, d.expected, d.got);
  };
  Visitor visitor;
  visitor.on_start = [&](const game::State& start, std::int64_t) {
    state = start;
    skip = false;
    ++report.games;
  };
  visitor.on_step = [&](const StepLine& line, std::int64_t game, std::int64_t step, const Place& place) {
    ++report.steps;
    if (skip) return;
    Difference difference;
    if (state.done())
      mismatch(game, step, place, {"done", "a step after the end", "a game that is over"});
    else if (replay(state, line, difference))
      mismatch(game, step, place, difference);
  };
  visitor.on_end = [&](std::int64_t game, std::int64_t steps, const Place& place) {
    if (!skip && !state.done())
      mismatch(game, steps, place, {"done", "the end of the record", "a game that goes on"});
  };
  visit_games(file, visitor);
}

// ---- Observations, opponents, rewards.

using Key = std::pair<std::int64_t, std::int64_t>;  // game, step

struct Recorded {
  game::State state;
  Six reward{};
};

std::map<Key, Recorded> states_of(const std::string& traces) {
  std::map<Key, Recorded> states;
  game::State last{};
  Visitor visitor;
  visitor.on_start = [&](const game::State& start, std::int64_t game) {
    last = start;
    states[{game, 0}] = {start, {}};
  };
  visitor.on_step = [&](const StepLine& line, std::int64_t game, std::int64_t step, const Place& place) {
    game::Position position;
    position.snakes = line.after.snakes;
    position.directions = line.after.directions;
    position.beans = line.after.beans;
    position.step = static_cast<int>(std::min<std::int64_t>(step, INT32_MAX - 1)) + 1;
    position.done = line.done;
    position.returns = {last.team_return(0), last.team_return(1)};
    for (int i = 0; i < kSnakes; ++i) position.returns[i / kTeamSize] += line.reward[i];
    const std::string fault = game::fault_of(position);
    if (!fault.empty()) place.fail("not a board: " + fault);
    last = game::make_state(position);
    states[{game, step}] = {last, line.reward};
  };
  visitor.on_end = [](std::int64_t, std::int64_t, const Place&) {};
  visit_games(traces, visitor);
  return states;
}

/// A list of `n_rows` lists of `n_columns` numbers.
std::vector<double> numbers(const json& value, std::size_t n_rows, std::size_t n_columns, const char* name,
                            const Place& place) {
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
    place.fail(fmt::format("field \"{}\" is not a list of {} lists of {} numbers", name, n_rows, n_columns));
  return result;
}

bool close(double expected, double got) {
  return std::abs(expected - got) <= 1e-5 * std::max(1.0, std::abs(expected));
}

}  // namespace

TraceReport verify_traces(const std::vector<std::string>& files) {
  TraceReport report{};
  for (const std::string& file : files) verify_file(file, report);
  return report;
}

EncodingReport verify_encodings(const std::string& encodings, const std::string& traces) {
  const std::map<Key, Recorded> states = states_of(traces);
  EncodingReport report{};
  io::LineReader reader(encodings);
  const Place place{reader};
  std::string text;
  while (reader.next(text)) {
    if (text.empty()) continue;
    const json line = parse(text, place);
    const Key key{integer(field(line, "trace_game", place), 0, INT32_MAX, "trace_game", place),
                  integer(field(line, "step", place), 0, game::kMaxSteps, "step", place)};
    const auto at = states.find(key);
    if (at == states.end())
      place.fail(fmt::format("{} has no game {}, step {}", traces, key.first, key.second));
    const game::State& state = at->second.state;
    ++report.states;
    std::string difference;  // of this state, the first
    const auto compare = [&difference](const std::string& what, double expected, double got) {
      if (difference.empty() && !close(expected, got))
        difference = fmt::format("{}: expected {}, got {}", what, expected, got);
    };

    for (const auto& [name, kind] :
         {std::pair{"obs26", encode::ObsKind::k26}, std::pair{"obs30", encode::ObsKind::k30}}) {
      const auto size = static_cast<std::size_t>(encode::obs_size(kind));
      const std::vector<double> expected = numbers(field(line, name, place), kTeamSize, size, name, place);
      std::vector<float> got(kTeamSize * size);
      encode::observe(kind, state, 0, got.data());
      for (std::size_t k = 0; k < got.size(); ++k)
        compare(fmt::format("{}, snake {}, feature {}", name, k / size, k % size), expected[k], got[k]);
    }
    for (const char* name : {"level1", "level2", "level3", "level4", "evasion"}) {
      const std::vector<int> expected = integers(field(line, name, place), kTeamSize, 0, 3, name, place);
      if (expected.size() != kTeamSize)
        place.fail(fmt::format("field \"{}\" is not a list of 3 actions", name));
      game::Actions got{};
      agents::act(*agents::try_opponent(name), state, 1, got, 0, 0);
      for (std::size_t i = 0; i < kTeamSize; ++i)
        compare(fmt::format("{}, snake {}", name, kTeamSize + i), expected[i], got.of[kTeamSize + i]);
    }
    if (key.second > 0) {  // no step leads to a start
      for (const auto& [name, rule] : {std::pair{"shaped_2021", encode::RewardRule::k2021},
                                       std::pair{"shaped_v1_1", encode::RewardRule::kV11}}) {
        const std::vector<double> expected = numbers(field(line, name, place), 5, kTeamSize, name, place);
        for (int k = 0; k < 5 * kTeamSize; ++k) {
          const int code = k / kTeamSize, snake = k % kTeamSize;
          compare(fmt::format("{}, score code {}, snake {}", name, code, snake),
                  expected[static_cast<std::size_t>(k)],
                  encode::shaped_reward(rule, state, snake,
                                        at->second.reward[static_cast<std::size_t>(snake)], code));
        }
      }
    }
    if (difference.empty()) continue;
    if (++report.mismatches == 1)
      report.first_mismatch = fmt::format("{}:{}: game {}, step {}, {}", encodings, reader.line_number(),
                                          key.first, key.second, difference);
  }
  if (report.states == 0) place.fail("no state in this file");
  return report;
}

}  // namespace snake_ddp::app
