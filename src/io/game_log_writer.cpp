#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "io/game_log.hpp"
#include "io/json_text.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::io {
namespace {

using game::kSnakes;
using nlohmann::ordered_json;

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

// By hand, because most of a log is small numbers, and a library's tree of them takes ten times as long as the
// disk.

using Text = fmt::memory_buffer;

void put(Text& out, std::string_view text) { out.append(text.data(), text.data() + text.size()); }

// The elements, each put by `one`, as a list.
template <class Values, class Put>
void put_list(Text& out, const Values& values, const Put& one) {
  char before = '[';
  for (const auto& value : values) {
    out.push_back(std::exchange(before, ','));
    one(value);
  }
  put(out, before == '[' ? "[]" : "]");
}

void put_numbers(Text& out, const PerSnake& values) {
  put_list(out, values, [&](int value) { fmt::format_to(fmt::appender(out), "{}", value); });
}

void put_cells(Text& out, const std::vector<int>& cells) {
  put_list(out, cells, [&](int cell) {
    fmt::format_to(fmt::appender(out), "[{},{}]", game::row_of(cell), game::column_of(cell));
  });
}

void put_places(Text& out, const RecordedBoard& board) {
  put(out, R"("snakes_position":)");
  put_list(out, board.snakes, [&](const std::vector<int>& body) { put_cells(out, body); });
  put(out, R"(,"beans_position":)");
  put_cells(out, board.beans);
}

void put_directions(Text& out, const PerSnake& directions) {
  put(out, R"("directions":)");
  put_list(out, directions, [&](int direction) {
    fmt::format_to(fmt::appender(out), "\"{}\"",
                   game::kDirectionNames.at(static_cast<std::size_t>(direction)));
  });
}

// One action is a list of one list, as agents on the platform return it.
void put_actions(Text& out, const PerSnake& actions) {
  constexpr std::array<std::string_view, game::kMoves> kOneHot = {"[[1,0,0,0]]", "[[0,1,0,0]]", "[[0,0,1,0]]",
                                                                  "[[0,0,0,1]]"};
  put_list(out, actions, [&](int action) { put(out, kOneHot.at(static_cast<std::size_t>(action))); });
}

void put_json(Text& out, const ordered_json& value) {
  put(out, value.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

// Four decimals are enough to read, and for the page to draw arrows from.
ordered_json short_numbers(const std::array<double, game::kMoves>& numbers) {
  ordered_json out = ordered_json::array();
  for (const double n : numbers)
    out.push_back(std::isnan(n) ? ordered_json(nullptr) : ordered_json(std::round(n * 1e4) / 1e4));
  return out;
}

}  // namespace

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
  Text out;
  fmt::format_to(fmt::appender(out), R"({{"game_name":"{}","n_player":{},"board_height":{},"board_width":{})",
                 kGame, kSnakes, game::kRows, game::kCols);
  if (!record.recording.empty())
    fmt::format_to(fmt::appender(out), R"(,"{}":"{}")", kRecording, record.recording);
  put(out, R"(,"init_info":{)");
  put_places(out, record.start);
  put(out, ",");
  put_directions(out, record.start.directions);
  put(out, R"(},"start_time":)");
  put_json(out, record.start_time);
  put(out, R"(,"mode":"terminal","steps":)");
  PerSnake n_return{};
  const RecordedBoard* before = &record.start;
  put_list(out, record.steps, [&](const RecordedStep& step) {
    for (std::size_t i = 0; i < kSnakes; ++i) n_return[i] += step.reward[i];
    put(out, R"({"info_before":{)");
    put_directions(out, before->directions);
    put(out, R"(},"joint_action":)");
    put_actions(out, step.actions);
    put(out, R"(,"reward":)");
    put_numbers(out, step.reward);
    put(out, R"(,"info_after":{)");
    put_places(out, step.after);
    put(out, R"(,"hit":)");
    put_numbers(out, step.hit);
    put(out, R"(,"score":)");
    put_numbers(out, scores(step.after));
    put(out, "}");
    if (is_explained(step)) {
      put(out, R"(,"explanation":)");
      put_json(out, explanation_json(step.reasons));
    }
    put(out, "}");
    before = &step.after;
  });
  const PerSnake last = scores(*before);
  fmt::format_to(fmt::appender(out), R"(,"winner":{},"winner_information":)",
                 std::max_element(last.begin(), last.end()) - last.begin() + 2);
  put_numbers(out, last);
  put(out, R"(,"n_return":)");
  put_numbers(out, n_return);
  put(out, R"(,"names":)");
  put_json(out, record.names);
  put(out, R"(,"end_time":)");
  put_json(out, record.end_time);
  put(out, record.cut_off ? ",\"truncated\":true}\n" : "}\n");
  return fmt::to_string(out);
}

}  // namespace snake_ddp::io
