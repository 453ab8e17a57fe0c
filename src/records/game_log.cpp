#include "snake_ddp/records/game_log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/records/json_fields.hpp"
#include "snake_ddp/records/json_text.hpp"
#include "snake_ddp/records/lines.hpp"

namespace snake_ddp::records {
namespace {

using game::kCols;
using game::kRows;
using game::kSnakes;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kGame = "snakes_3v3";
constexpr std::size_t kMostSteps = 10'000;  // far above a game's 200: two files were joined
constexpr std::size_t kMostBytes = 64U << 20U;

std::string now_text() { return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(std::time(nullptr))); }

template <class Values>
PerSnake per_snake(const Values& values) {
  PerSnake result{};
  std::copy(std::begin(values), std::end(values), result.begin());
  return result;
}

PerSnake scores(const RecordedBoard& board) {
  PerSnake result{};
  std::transform(board.snakes.begin(), board.snakes.end(), result.begin(), [](const std::vector<int>& body) {
    return static_cast<int>(body.size()) - game::kStartLength;
  });
  return result;
}

// ---- Writing.

ordered_json places(const std::vector<int>& cells) {
  ordered_json list = ordered_json::array();
  for (const int cell : cells) list.push_back({game::row_of(cell), game::column_of(cell)});
  return list;
}

ordered_json snakes_json(const RecordedBoard& board) {
  ordered_json list = ordered_json::array();
  for (const std::vector<int>& body : board.snakes) list.push_back(places(body));
  return list;
}

ordered_json words(const PerSnake& directions) {
  ordered_json list = ordered_json::array();
  for (const int direction : directions)
    list.push_back(game::kDirectionNames.at(static_cast<std::size_t>(direction)));
  return list;
}

// One action is a list of one list, as agents on the platform return it.
ordered_json one_hot(const PerSnake& actions) {
  ordered_json list = ordered_json::array();
  for (const int action : actions) {
    std::array<int, 4> choice{};
    choice.at(static_cast<std::size_t>(action)) = 1;
    list.push_back(ordered_json::array({choice}));
  }
  return list;
}

// Four decimals are enough to read, and for the page to draw arrows from.
ordered_json short_numbers(const std::array<double, game::kMoves>& numbers) {
  ordered_json out = ordered_json::array();
  for (const double n : numbers)
    out.push_back(std::isnan(n) ? ordered_json(nullptr) : ordered_json(std::round(n * 1e4) / 1e4));
  return out;
}

// ---- Reading.

PerSnake six(const json& object, const char* name, int low, int high, const Place& place) {
  PerSnake result{};
  const json& values = list(field(object, name, place), kSnakes, kSnakes, name, place);
  std::transform(values.begin(), values.end(), result.begin(),
                 [&](const json& value) { return integer(value, low, high, name, place); });
  return result;
}

std::string text_of(const json& object, const char* name, const Place& place) {
  const auto at = object.find(name);
  if (at == object.end() || at->is_null()) return {};
  if (!at->is_string()) place.fail(fmt::format("field \"{}\": {} is not a string", name, shown(*at)));
  return at->get<std::string>();
}

// The checks that both formats share for a game's start.
void check_start(const RecordedBoard& board, const Place& place) {
  if (board.beans.size() != game::kBeans)
    place.fail(fmt::format("not the start of a game: {} beans, not {}", board.beans.size(), game::kBeans));
  for (const std::vector<int>& body : board.snakes) {
    if (body.size() != game::kStartLength)
      place.fail(fmt::format("not the start of a game: a snake with {} cells, not {}", body.size(),
                             game::kStartLength));
  }
  const std::string fault = game::fault_of({board});
  if (!fault.empty()) place.fail("not the start of a game: " + fault);
}

// ---- Traces: a line for the start, a line a step, cells as numbers.

RecordedBoard trace_board(const json& line, const Place& place) {
  RecordedBoard board;
  const json& snakes = list(field(line, "snakes", place), kSnakes, kSnakes, "snakes", place);
  for (std::size_t i = 0; i < kSnakes; ++i)
    board.snakes[i] = integers(snakes[i], game::kCells, 0, game::kCells - 1, "snakes", place);
  board.directions = six(line, "directions", 0, 3, place);
  board.beans = integers(field(line, "beans", place), game::kBeans, 0, game::kCells - 1, "beans", place);
  return board;
}

RecordedGame trace_start(const json& line, const Place& place) {
  if (const json& kind = field(line, "game", place); kind != kGame)
    place.fail(fmt::format("field \"game\" is {}, not \"{}\"", shown(kind), kGame));
  integer(field(line, "height", place), kRows, kRows, "height", place);
  integer(field(line, "width", place), kCols, kCols, "width", place);
  RecordedGame game;
  game.start = trace_board(line, place);
  check_start(game.start, place);
  game.line = place.line;
  return game;
}

RecordedStep trace_step(const json& line, const Place& place) {
  RecordedStep step;
  step.actions = six(line, "actions", 0, 3, place);
  step.turned = six(line, "turned", 0, 3, place);
  step.reward = six(line, "reward", -game::kCells, game::kCells, place);
  step.hit = six(line, "hit", 0, 1, place);
  step.after = trace_board(line, place);
  const json& done = field(line, "done", place);
  if (!done.is_boolean()) place.fail("field \"done\" is not true or false");
  step.done = done.get<bool>();
  step.line = place.line;
  return step;
}

// ---- The platform's logs: one object a game, cells as [row, column].

// Old logs have lists as texts that hold JSON.
json unwrapped(const json& object, const char* name, const Place& place) {
  const json& value = field(object, name, place);
  if (!value.is_string()) return value;
  try {
    return parse_json(value.get<std::string>());
  } catch (const base::FileError&) {
    place.fail(fmt::format("field \"{}\": {} is not a list", name, shown(value)));
  }
}

std::vector<int> cells(const json& value, std::size_t most, const char* name, const Place& place) {
  std::vector<int> result;
  for (const json& pair : list(value, 0, most, name, place)) {
    list(pair, 2, 2, name, place);
    result.push_back(integer(pair[0], 0, kRows - 1, name, place) * kCols +
                     integer(pair[1], 0, kCols - 1, name, place));
  }
  return result;
}

PerSnake log_directions(const json& object, const Place& place) {
  PerSnake result{};
  const json& values = list(field(object, "directions", place), kSnakes, kSnakes, "directions", place);
  std::transform(values.begin(), values.end(), result.begin(), [&](const json& value) {
    constexpr auto& kNames = game::kDirectionNames;
    const auto* const text = value.get_ptr<const std::string*>();
    const auto at = text == nullptr ? kNames.end() : std::find(kNames.begin(), kNames.end(), *text);
    if (at == kNames.end())
      place.fail(fmt::format("field \"directions\": {} is not up, down, left or right", shown(value)));
    return static_cast<int>(at - kNames.begin());
  });
  return result;
}

RecordedBoard log_board(const json& info, const Place& place) {
  RecordedBoard board;
  const json& snakes =
      list(field(info, "snakes_position", place), kSnakes, kSnakes, "snakes_position", place);
  for (std::size_t i = 0; i < kSnakes; ++i)
    board.snakes[i] = cells(snakes[i], game::kCells, "snakes_position", place);
  board.beans = cells(field(info, "beans_position", place), game::kBeans, "beans_position", place);
  board.directions.fill(kUnknown);
  return board;
}

PerSnake log_actions(const json& step, const Place& place) {
  PerSnake actions{};
  actions.fill(kUnknown);
  if (!step.contains("joint_action")) return actions;  // the reference's run_log.py omits it
  const char* const name = "joint_action";
  const json choices = unwrapped(step, name, place);
  list(choices, kSnakes, kSnakes, name, place);
  for (std::size_t i = 0; i < kSnakes; ++i) {
    const std::vector<int> choice = integers(list(choices[i], 1, 1, name, place)[0], 4, 0, 1, name, place);
    if (choice.size() != 4 || std::count(choice.begin(), choice.end(), 1) != 1)
      place.fail(
          fmt::format("field \"{}\": {} does not select one of four actions", name, shown(choices[i])));
    actions[i] = static_cast<int>(std::find(choice.begin(), choice.end(), 1) - choice.begin());
  }
  return actions;
}

play::Reasons log_reasons(const json& value, const Place& place) {
  const char* const name = "explanation";
  play::Reasons reasons;
  if (value.is_null()) return reasons;
  const auto kind =
      std::find(play::kReasonKinds.begin() + 1, play::kReasonKinds.end(), field(value, "kind", place));
  if (kind == play::kReasonKinds.end()) place.fail(fmt::format("field \"{}\": an unknown kind", name));
  reasons.kind = static_cast<play::Reasons::Kind>(kind - play::kReasonKinds.begin());
  const json& moves = list(field(value, "moves", place), game::kTeamSize, game::kTeamSize, name, place);
  for (std::size_t i = 0; i < game::kTeamSize; ++i) {
    const json& worth = list(moves[i], game::kMoves, game::kMoves, name, place);
    for (std::size_t move = 0; move < game::kMoves; ++move) {
      if (!worth[move].is_null() && !worth[move].is_number())
        place.fail(fmt::format("field \"{}\": {} is not a number", name, shown(worth[move])));
      reasons.worth[i][move] = worth[move].is_null() ? play::kClosed : worth[move].get<double>();
    }
  }
  if (value.contains("visits")) {
    const json& visits = list(value["visits"], game::kTeamSize, game::kTeamSize, name, place);
    for (std::size_t i = 0; i < game::kTeamSize; ++i) {
      const std::vector<int> of = integers(list(visits[i], game::kMoves, game::kMoves, name, place),
                                           game::kMoves, 0, 1'000'000'000, name, place);
      std::copy(of.begin(), of.end(), reasons.visits[i].begin());
    }
  }
  if (value.contains("line")) {
    for (const json& step : list(value["line"], 0, game::kMaxSteps, name, place))
      reasons.line.push_back(six({{name, step}}, name, play::kGone, game::kMoves - 1, place));
  }
  return reasons;
}

RecordedStep log_step(const json& line, const Place& place) {
  if (!line.is_object()) place.fail("not a JSON object");
  RecordedStep step;
  step.actions = log_actions(line, place);
  step.turned.fill(kUnknown);
  step.reward =
      six({{"reward", unwrapped(line, "reward", place)}}, "reward", -game::kCells, game::kCells, place);
  const json& info = field(line, "info_after", place);
  step.hit = six(info, "hit", 0, 1, place);
  step.score = six(info, "score", -game::kStartLength, game::kCells, place);
  step.after = log_board(info, place);
  step.line = place.line;
  if (line.contains("explanation")) {
    const json& teams = list(line["explanation"], 2, 2, "explanation", place);
    for (std::size_t team = 0; team < 2; ++team) step.reasons[team] = log_reasons(teams[team], place);
  }
  return step;
}

RecordedGame read_log(const json& log, Place place) {
  if (const json& kind = field(log, "game_name", place); kind != kGame)
    place.fail(fmt::format("field \"game_name\" is {}, not \"{}\"", shown(kind), kGame));
  integer(field(log, "n_player", place), kSnakes, kSnakes, "n_player", place);
  integer(field(log, "board_height", place), kRows, kRows, "board_height", place);
  integer(field(log, "board_width", place), kCols, kCols, "board_width", place);
  RecordedGame game;
  game.line = place.line;
  game.start_time = text_of(log, "start_time", place);
  game.end_time = text_of(log, "end_time", place);
  if (log.contains("names")) {
    const json& names = list(log["names"], 2, 2, "names", place);
    for (std::size_t team = 0; team < 2; ++team) {
      if (!names[team].is_string())
        place.fail(fmt::format("field \"names\": {} is not a string", shown(names[team])));
      game.names[team] = names[team].get<std::string>();
    }
  }
  if (log.contains("truncated")) {
    if (!log["truncated"].is_boolean()) place.fail("field \"truncated\" is not true or false");
    game.cut_off = log["truncated"].get<bool>();
  }

  const json& init = field(log, "init_info", place);
  const json& steps = list(field(log, "steps", place), 0, kMostSteps, "steps", place);
  place.step = "init_info: ";
  game.start = log_board(init, place);
  game.start.directions = log_directions(init, place);
  check_start(game.start, place);
  for (std::size_t k = 0; k < steps.size(); ++k) {
    place.step = fmt::format("step {}: ", k + 1);
    // An entry has the directions before its step, so the next entry has those after it.
    const json& before = field(steps[k], "info_before", place);
    const PerSnake directions = log_directions(before, place);
    if (k > 0) {
      game.steps.back().after.directions = directions;
    } else if (directions != game.start.directions) {
      place.fail("field \"info_before\": other directions than in init_info");
    }
    game.steps.push_back(log_step(steps[k], place));
  }
  if (!game.steps.empty()) {  // the log lacks the last directions; the bodies of living snakes show theirs
    RecordedStep& last = game.steps.back();
    for (std::size_t i = 0; i < kSnakes; ++i)
      if (last.hit[i] == 0) last.after.directions[i] = direction_of(last.after.snakes[i]);
  }
  place.step.clear();
  if (log.contains("n_return")) {
    game.n_return =
        six({{"n_return", unwrapped(log, "n_return", place)}}, "n_return", -1'000'000, 1'000'000, place);
  }
  return game;
}

}  // namespace

int direction_of(const std::vector<int>& body) {
  for (int direction = 0; body.size() > 1 && direction < 4; ++direction)
    if (game::follow(body[1], direction) == body[0]) return direction;
  return kUnknown;
}

RecordedGame begin_record(const game::State& start) {
  RecordedGame record;
  record.start = game::position_of(start);
  record.start_time = record.end_time = now_text();
  return record;
}

void add_step(RecordedGame& record, const game::Actions& actions, const game::StepResult& result,
              const game::State& after) {
  RecordedStep step;
  step.actions = per_snake(actions.of);
  step.turned = per_snake(result.turned);
  step.reward = per_snake(result.reward);
  step.hit = per_snake(result.hit);
  step.after = game::position_of(after);
  step.done = result.done;
  record.steps.push_back(std::move(step));
  record.end_time = now_text();
}

bool is_explained(const RecordedStep& step) {
  return std::any_of(step.reasons.begin(), step.reasons.end(),
                     [](const play::Reasons& r) { return r.kind != play::Reasons::Kind::kNone; });
}

ordered_json explanation_json(const std::array<play::Reasons, 2>& reasons) {
  ordered_json teams = ordered_json::array();
  for (const play::Reasons& r : reasons) {
    if (r.kind == play::Reasons::Kind::kNone) {
      teams.push_back(nullptr);
      continue;
    }
    ordered_json team = {{"kind", play::kReasonKinds[static_cast<std::size_t>(r.kind)]}};
    for (const auto& worth : r.worth) team["moves"].push_back(short_numbers(worth));
    if (r.kind == play::Reasons::Kind::kTree) team["visits"] = r.visits;
    if (!r.line.empty()) team["line"] = r.line;
    teams.push_back(std::move(team));
  }
  return teams;
}

std::string game_log_text(const RecordedGame& record) {
  ordered_json log = {
      {"game_name", kGame},
      {"n_player", kSnakes},
      {"board_height", kRows},
      {"board_width", kCols},
      {"init_info",
       {{"snakes_position", snakes_json(record.start)},
        {"beans_position", places(record.start.beans)},
        {"directions", words(record.start.directions)}}},
      {"start_time", record.start_time},
      {"mode", "terminal"},
  };
  ordered_json steps = ordered_json::array();
  PerSnake n_return{};
  const RecordedBoard* before = &record.start;
  for (const RecordedStep& step : record.steps) {
    for (std::size_t i = 0; i < kSnakes; ++i) n_return[i] += step.reward[i];
    steps.push_back({{"info_before", {{"directions", words(before->directions)}}},
                     {"joint_action", one_hot(step.actions)},
                     {"reward", step.reward},
                     {"info_after",
                      {{"snakes_position", snakes_json(step.after)},
                       {"beans_position", places(step.after.beans)},
                       {"hit", step.hit},
                       {"score", scores(step.after)}}}});
    if (is_explained(step)) steps.back()["explanation"] = explanation_json(step.reasons);
    before = &step.after;
  }
  const PerSnake last = scores(*before);
  log["steps"] = std::move(steps);
  log["winner"] = std::max_element(last.begin(), last.end()) - last.begin() + 2;
  log["winner_information"] = last;
  log["n_return"] = n_return;
  log["names"] = record.names;
  log["end_time"] = record.end_time;
  if (record.cut_off) log["truncated"] = true;
  return log.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

void read_games(const std::string& path, const std::function<void(const RecordedGame&)>& visit) {
  LineReader reader(path);
  std::optional<RecordedGame> trace;  // a game whose lines are being read
  bool any = false;
  std::string text;
  while (reader.next(text)) {
    if (text.find_first_not_of(" \t") == std::string::npos) continue;
    const Place place{path, reader.line_number()};
    if (!any && !json::accept(text)) {  // perhaps one object over many lines
      for (std::string more; reader.next(more) && text.size() <= kMostBytes;) text += '\n' + more;
      if (text.size() > kMostBytes) place.fail("more than 64 MiB that are not JSON lines");
    }
    const json line = parsed(text, place);
    any = true;
    if (line.contains("game_name")) {
      if (trace) visit(*trace);
      trace.reset();
      visit(read_log(line, place));
    } else if (line.contains("game")) {
      if (trace) visit(*trace);
      trace = trace_start(line, place);
    } else if (trace) {
      if (trace->steps.size() == kMostSteps)
        place.fail(fmt::format("more than {} steps in one game; a game has at most 200", kMostSteps));
      trace->steps.push_back(trace_step(line, place));
    } else {
      place.fail("neither a game log (\"game_name\", \"steps\") nor the start of a recorded game (\"game\")");
    }
  }
  if (!any) throw base::FileError(fmt::format("{}: no game in this file", path));
  if (trace) visit(*trace);
}

RecordedGame nth_game(const std::string& path, std::int64_t n) {
  std::optional<RecordedGame> wanted;
  std::int64_t count = 0;
  read_games(path, [&](const RecordedGame& game) {
    if (count++ == n) wanted = game;
  });
  if (!wanted)
    throw base::UsageError(fmt::format("--game {}: {} contains {} game(s), counted from 0", n, path, count));
  return *wanted;
}

}  // namespace snake_ddp::records
