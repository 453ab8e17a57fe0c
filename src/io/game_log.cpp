#include "io/game_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "io/atomic_file.hpp"
#include "io/json_fields.hpp"
#include "io/json_text.hpp"
#include "io/json_values.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::io {
namespace {

using game::kCols;
using game::kRows;
using game::kSnakes;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMostSteps = 10'000;  // far above a game's 200: two files were joined

PerSnake six(const json& object, const char* name, int low, int high, const FilePosition& position) {
  PerSnake result{};
  const json& values = list(field(object, name, position), kSnakes, kSnakes, name, position);
  std::transform(values.begin(), values.end(), result.begin(),
                 [&](const json& value) { return integer(value, low, high, name, position); });
  return result;
}

// The checks that both formats share for a game's start.
void check_start(const RecordedBoard& board, const FilePosition& position) {
  if (board.beans.size() != game::kBeans)
    position.fail(fmt::format("not the start of a game: {}, not {}",
                              core::counted(board.beans.size(), "bean"), game::kBeans));
  for (const std::vector<int>& body : board.snakes) {
    if (body.size() != game::kStartLength)
      position.fail(fmt::format("not the start of a game: a snake with {}, not {}",
                                core::counted(body.size(), "cell"), game::kStartLength));
  }
  const std::string fault = game::fault_of({board});
  if (!fault.empty()) position.fail("not the start of a game: " + fault);
}

// ---- Traces: a line for the start, a line a step, cells as numbers.

RecordedBoard trace_board(const json& line, const FilePosition& position) {
  RecordedBoard board;
  const json& snakes = list(field(line, "snakes", position), kSnakes, kSnakes, "snakes", position);
  for (std::size_t i = 0; i < kSnakes; ++i)
    board.snakes[i] = integers(snakes[i], game::kCells, 0, game::kCells - 1, "snakes", position);
  board.directions = six(line, "directions", 0, 3, position);
  board.beans =
      integers(field(line, "beans", position), game::kBeans, 0, game::kCells - 1, "beans", position);
  return board;
}

RecordedGame trace_start(const json& line, const FilePosition& position) {
  if (const json& kind = field(line, "game", position); kind != kGame)
    position.fail(fmt::format("field \"game\" is {}, not \"{}\"", shown(kind), kGame));
  integer(field(line, "height", position), kRows, kRows, "height", position);
  integer(field(line, "width", position), kCols, kCols, "width", position);
  RecordedGame game;
  game.start = trace_board(line, position);
  check_start(game.start, position);
  game.line = position.line;
  return game;
}

RecordedStep trace_step(const json& line, const FilePosition& position) {
  RecordedStep step;
  step.actions = six(line, "actions", 0, 3, position);
  step.turned = six(line, "turned", 0, 3, position);
  step.reward = six(line, "reward", -game::kCells, game::kCells, position);
  step.hit = six(line, "hit", 0, 1, position);
  step.after = trace_board(line, position);
  const json& done = field(line, "done", position);
  if (!done.is_boolean()) position.fail("field \"done\" is not true or false");
  step.done = done.get<bool>();
  step.line = position.line;
  return step;
}

// ---- The platform's logs: one object a game, cells as [row, column].

std::vector<int> cells(const json& value, std::size_t most, const char* name, const FilePosition& position) {
  std::vector<int> result;
  for (const json& pair : list(value, 0, most, name, position)) {
    list(pair, 2, 2, name, position);
    result.push_back(integer(pair[0], 0, kRows - 1, name, position) * kCols +
                     integer(pair[1], 0, kCols - 1, name, position));
  }
  return result;
}

PerSnake log_directions(const json& object, const FilePosition& position) {
  PerSnake result{};
  const json& values = list(field(object, "directions", position), kSnakes, kSnakes, "directions", position);
  std::transform(values.begin(), values.end(), result.begin(), [&](const json& value) {
    constexpr auto& kNames = game::kDirectionNames;
    const auto* const text = value.get_ptr<const std::string*>();
    const auto at = text == nullptr ? kNames.end() : std::find(kNames.begin(), kNames.end(), *text);
    if (at == kNames.end())
      position.fail(fmt::format("field \"directions\": {} is not up, down, left or right", shown(value)));
    return static_cast<int>(at - kNames.begin());
  });
  return result;
}

RecordedBoard log_board(const json& info, const FilePosition& position) {
  RecordedBoard board;
  const json& snakes =
      list(field(info, "snakes_position", position), kSnakes, kSnakes, "snakes_position", position);
  for (std::size_t i = 0; i < kSnakes; ++i)
    board.snakes[i] = cells(snakes[i], game::kCells, "snakes_position", position);
  board.beans = cells(field(info, "beans_position", position), game::kBeans, "beans_position", position);
  board.directions.fill(kUnknown);
  return board;
}

PerSnake log_actions(const json& step, const FilePosition& position) {
  PerSnake actions{};
  actions.fill(kUnknown);
  const char* const name = "joint_action";
  if (given(step, name) == nullptr) return actions;  // the reference's run_log.py omits it
  const json& choices = list(step[name], kSnakes, kSnakes, name, position);
  for (std::size_t i = 0; i < kSnakes; ++i) {
    const std::vector<int> choice =
        integers(list(choices[i], 1, 1, name, position)[0], 4, 0, 1, name, position);
    if (choice.size() != 4 || std::count(choice.begin(), choice.end(), 1) != 1)
      position.fail(
          fmt::format("field \"{}\": {} does not select one of four actions", name, shown(choices[i])));
    actions[i] = static_cast<int>(std::find(choice.begin(), choice.end(), 1) - choice.begin());
  }
  return actions;
}

play::Reasons log_reasons(const json& value, const FilePosition& position) {
  const char* const name = "explanation";
  play::Reasons reasons;
  if (value.is_null()) return reasons;
  const auto kind =
      std::find(play::kReasonKinds.begin() + 1, play::kReasonKinds.end(), field(value, "kind", position));
  if (kind == play::kReasonKinds.end()) position.fail(fmt::format("field \"{}\": an unknown kind", name));
  reasons.kind = static_cast<play::Reasons::Kind>(kind - play::kReasonKinds.begin());
  const json& moves = list(field(value, "moves", position), game::kTeamSize, game::kTeamSize, name, position);
  for (std::size_t i = 0; i < game::kTeamSize; ++i) {
    const json& worth = list(moves[i], game::kMoves, game::kMoves, name, position);
    for (std::size_t move = 0; move < game::kMoves; ++move) {
      if (!worth[move].is_null() && !worth[move].is_number())
        position.fail(fmt::format("field \"{}\": {} is not a number", name, shown(worth[move])));
      reasons.worth[i][move] = worth[move].is_null() ? play::kClosed : worth[move].get<double>();
    }
  }
  if (value.contains("visits")) {
    const json& visits = list(value["visits"], game::kTeamSize, game::kTeamSize, name, position);
    for (std::size_t i = 0; i < game::kTeamSize; ++i) {
      const std::vector<int> of = integers(list(visits[i], game::kMoves, game::kMoves, name, position),
                                           game::kMoves, 0, 1'000'000'000, name, position);
      std::copy(of.begin(), of.end(), reasons.visits[i].begin());
    }
  }
  if (value.contains("line")) {
    for (const json& step : list(value["line"], 0, game::kMaxSteps, name, position))
      reasons.line.push_back(six({{name, step}}, name, play::kGone, game::kMoves - 1, position));
  }
  return reasons;
}

RecordedStep log_step(const json& line, const FilePosition& position) {
  RecordedStep step;
  step.actions = log_actions(line, position);
  step.turned.fill(kUnknown);
  step.reward = six(line, "reward", -game::kCells, game::kCells, position);
  const json& info = field(line, "info_after", position);
  step.hit = six(info, "hit", 0, 1, position);
  if (given(info, "score") != nullptr)
    step.score = six(info, "score", -game::kStartLength, game::kCells, position);
  step.after = log_board(info, position);
  for (std::size_t i = 0; i < kSnakes; ++i)  // the bodies of living snakes show theirs
    if (step.hit[i] == 0) step.after.directions[i] = direction_of(step.after.snakes[i]);
  step.line = position.line;
  if (given(line, "explanation") != nullptr) {
    const json& teams = list(line["explanation"], 2, 2, "explanation", position);
    for (std::size_t team = 0; team < 2; ++team) step.reasons[team] = log_reasons(teams[team], position);
  }
  return step;
}

// Where logs have the teams' names. Ours and the reference's use the first.
constexpr const char* kNameFields[] = {"names", "player",     "players", "player_names",
                                       "teams", "team_names", "agents",  "users"};
constexpr const char* kNamesInside[] = {"name", "username", "user_name", "nickname", "agent_name"};

// A team's name: a text, a number, or an object that has one of these.
std::optional<std::string> name_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return number_text(value);
  for (const char* name : kNamesInside)
    if (value.is_object() && value.contains(name)) return name_of(value[name]);
  return std::nullopt;
}

void read_names(const json& log, std::array<std::string, 2>& names, const FilePosition& position) {
  for (const char* const field : kNameFields) {
    const json* const found = given(log, field);
    if (found == nullptr) continue;
    const bool each_snake = found->is_array() && found->size() == kSnakes;
    if (!each_snake) list(*found, 2, 2, field, position);
    for (std::size_t team = 0; team < 2; ++team) {
      const json& one = (*found)[each_snake ? team * game::kTeamSize : team];
      const std::optional<std::string> name = name_of(one);
      if (!name) position.fail(fmt::format("field \"{}\": {} is not a name", field, shown(one)));
      names[team] = *name;
    }
    return;
  }
}

// An entry has the directions before its step, so the next one has those after it. Without them the step before has its own, but
// the platform's service repeats those before the step after the last one.
void read_directions(const json& log, std::size_t k, RecordedGame& game, const FilePosition& position) {
  RecordedBoard& before = k > 0 ? game.steps.back().after : game.start;
  const json* const own = given(log["steps"][k], "info_before");
  if (own != nullptr) {
    const PerSnake directions = log_directions(*own, position);
    if (k == 0 && directions != before.directions)
      position.fail("field \"info_before\": other directions than in init_info");
    before.directions = directions;
  } else if (k > 0 && given(log["steps"][k - 1]["info_after"], "directions") != nullptr) {
    before.directions = log_directions(log["steps"][k - 1]["info_after"], position);
  }
}

RecordedGame read_log(json log, FilePosition position) {
  if (const json& kind = field(log, "game_name", position); kind != kGame)
    position.fail(fmt::format("field \"game_name\" is {}, not \"{}\"", shown(kind), kGame));
  number(log, "n_player", kSnakes, position);
  number(log, "board_height", kRows, position);
  number(log, "board_width", kCols, position);
  unwrap_members(log, position);
  RecordedGame game;
  game.line = position.line;
  game.start_time = text_of(log, "start_time", position);
  game.end_time = text_of(log, "end_time", position);
  read_names(log, game.names, position);
  if (const json* const flag = given(log, "truncated"); flag != nullptr) {
    if (!flag->is_boolean()) position.fail("field \"truncated\" is not true or false");
    game.cut_off = flag->get<bool>();
  } else {  // the result is written when the game is over
    game.cut_off = given(log, "winner") == nullptr && given(log, "n_return") == nullptr;
  }

  field(log, "init_info", position);
  json& init = log["init_info"];
  const std::size_t steps = list(field(log, "steps", position), 0, kMostSteps, "steps", position).size();
  position.step = "init_info: ";
  unwrap_members(init, position);
  game.start = log_board(init, position);
  game.start.directions = log_directions(init, position);
  check_start(game.start, position);
  for (std::size_t k = 0; k < steps; ++k) {
    position.step = fmt::format("step {}: ", k + 1);
    json& step = log["steps"][k];
    unwrap_members(step, position);
    for (const char* const info : {"info_before", "info_after"})
      if (step.is_object() && step.contains(info)) unwrap_members(step[info], position);
    if (!step.is_object()) position.fail("no object");
    read_directions(log, k, game, position);
    game.steps.push_back(log_step(step, position));
  }
  position.step.clear();
  if (given(log, "n_return") != nullptr)
    game.n_return = six(log, "n_return", -1'000'000, 1'000'000, position);
  return game;
}

// ---- Which objects are what.

enum class Kind { kOther, kLog, kTraceStart, kTraceStep };

bool is_container(std::string_view value) { return value.starts_with('{') || value.starts_with('['); }

Kind kind_of(std::string_view text) {
  Kind kind = Kind::kOther;
  visit_parts(text, [&](std::string_view key, std::string_view value) {
    if (key == "init_info" || (key == "steps" && (is_container(value) || value.starts_with('"'))))
      kind = Kind::kLog;
    if (kind == Kind::kOther && key == "game" && value.starts_with('"')) kind = Kind::kTraceStart;
    if (kind == Kind::kOther && key == "actions") kind = Kind::kTraceStep;
  });
  return kind;
}

bool is_usable(std::string_view text) {
  try {
    check_json(text);
    return true;
  } catch (const core::FileError&) {
    return false;
  }
}

// What is around a log, too, may be read in only one way.
void check_around(std::string_view text, const FilePosition& position) {
  try {
    check_json(text);
  } catch (const core::FileError& e) {
    position.fail(e.what());
  }
}

// Calls `found` with each log within a value, in order, and its line: whatever objects, lists and texts that hold JSON are
// around it.
void visit_logs(std::string_view value, std::int64_t line,
                const std::function<void(std::string_view, std::int64_t)>& found, int depth = 0) {
  if (depth > kMostJsonDepth) return;
  const char* counted = value.data();
  visit_parts(value, [&](std::string_view, std::string_view part) {
    line += std::count(std::exchange(counted, part.data()), part.data(), '\n');
    json text;
    if (part.starts_with("\"{") || part.starts_with("\"[")) {
      text = json::parse(part, nullptr, false);
      if (!text.is_string()) return;
      part = text.get_ref<const std::string&>();
      if (!is_usable(part)) return;
    }
    if (kind_of(part) == Kind::kLog) return found(part, line);
    visit_logs(part, line, found, depth + 1);
  });
}

bool has_log_inside(std::string_view text) {
  bool found = false;
  visit_logs(text, 1, [&](std::string_view, std::int64_t) { found = true; });
  return found;
}

// What an answer without a game says.
std::string reason_in(const json& answer) {
  for (const char* const field : {"message", "msg", "error", "detail"})
    if (const json* const reason = given(answer, field); reason != nullptr)
      return fmt::format("; its \"{}\" is {}", field, shown(*reason));
  return {};
}

// Takes a file's objects one after the other.
struct GameReader {
  const std::string& path;
  const std::function<void(const RecordedGame&)>& visit;
  std::optional<RecordedGame> trace;  // whose lines are being read

  void end_trace() {
    if (trace) visit(*trace);
    trace.reset();
  }

  void take(const std::string& text, std::int64_t line) {
    const FilePosition position{path, line};
    const Kind kind = kind_of(text);
    if (kind == Kind::kTraceStep && trace) return take_step(parsed(text, position), position);
    if (kind == Kind::kLog || kind == Kind::kTraceStart) end_trace();
    if (kind == Kind::kLog) return visit(read_log(parsed(text, position), position));
    if (kind == Kind::kTraceStart) {
      trace = trace_start(parsed(text, position), position);
      return;
    }
    bool any = false;
    visit_logs(text, line, [&](std::string_view log, std::int64_t at) {
      if (!std::exchange(any, true)) check_around(text, position);
      end_trace();
      const FilePosition there{path, at};
      visit(read_log(parsed(std::string(log), there), there));
    });
    if (any) return;
    const json object = parsed(text, position);
    if (trace) return take_step(object, position);                 // says what is missing
    if (object.contains("game_name")) read_log(object, position);  // likewise
    position.fail(
        "neither a game log (\"game_name\", \"steps\"), nor an object with one inside, nor the start of a "
        "recorded game (\"game\")" +
        reason_in(object));
  }

  void take_step(const json& object, const FilePosition& position) {
    if (trace->steps.size() == kMostSteps)
      position.fail(fmt::format("more than {} steps in one game; a game has at most 200", kMostSteps));
    trace->steps.push_back(trace_step(object, position));
  }
};

}  // namespace

int direction_of(const std::vector<int>& body) {
  for (int direction = 0; body.size() > 1 && direction < 4; ++direction)
    if (game::follow(body[1], direction) == body[0]) return direction;
  return kUnknown;
}

std::string recording_of(const std::string& path) {
  constexpr std::size_t kHeadBytes = 256, kDigits = 16;
  const std::string head = head_of_file(path, kHeadBytes);
  const std::string before = fmt::format(R"("{}":")", kRecording);
  const std::size_t at = head.find(before);
  return at == head.npos ? std::string() : head.substr(at + before.size(), kDigits);
}

void read_games(const std::string& path, const std::function<void(const RecordedGame&)>& visit) {
  ObjectReader reader(path);
  GameReader games{path, visit, {}};
  bool any = false;
  for (std::string text; reader.next(text); any = true) games.take(text, reader.line_number());
  if (!any) throw core::FileError(fmt::format("{}: no game in this file", path));
  games.end_trace();
}

bool holds_games(const std::string& path) {
  try {
    std::string text;
    return ObjectReader(path).next(text) && (kind_of(text) != Kind::kOther || has_log_inside(text));
  } catch (const core::FileError&) {
    return false;
  }
}

RecordedGame nth_game(const std::string& path, std::optional<std::int64_t> n) {
  std::optional<RecordedGame> wanted;
  std::int64_t count = 0;
  read_games(path, [&](const RecordedGame& game) {
    if (count++ == n.value_or(0)) wanted = game;
  });
  if (!wanted)
    throw core::UsageError(fmt::format("--game {}: {} contains {}, counted from 0", n.value_or(0), path,
                                       core::counted(count, "game")));
  if (!n && count > 1)
    core::tell_error(fmt::format("{} contains {}: this is the first; --game N selects another, 0 to {}", path,
                                 core::counted(count, "game"), count - 1));
  return *wanted;
}

}  // namespace snake_ddp::io
