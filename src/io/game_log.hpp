// Recorded games: the platform's JSON logs, written and read, and traces (JSON lines), read. Both formats are
// in docs/reference/formats.md.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "snake_ddp/game/position.hpp"
#include "snake_ddp/play/reasons.hpp"

namespace snake_ddp::io {

using PerSnake = std::array<int, game::kSnakes>;

/// For an action or direction that the record does not contain.
inline constexpr int kUnknown = -1;

/// A snake without cells could not respawn. Directions are kUnknown for snakes that died in a log's last step.
using RecordedBoard = game::Layout;

/// Of logs: the game's name, and the key of a recording's hash.
inline constexpr std::string_view kGame = "snakes_3v3", kRecording = "recording";

struct RecordedStep {
  PerSnake actions{};  // as chosen; all kUnknown if a log lacks joint_action
  PerSnake turned{};   // the direction each snake took; all kUnknown in a log read from a file
  PerSnake reward{};   // of the game
  PerSnake hit{};      // 1: died in this step
  RecordedBoard after;
  std::optional<PerSnake> score;         // only in logs
  std::optional<bool> done;              // only in traces
  std::array<play::Reasons, 2> reasons;  // of the teams for `actions`; only in logs, of eval --explain
  std::int64_t line = 0;                 // of the source file
};

struct RecordedGame {
  std::array<std::string, 2> names{"team A", "team B"};
  std::string start_time, end_time;  // local, as text; empty if unknown
  RecordedBoard start;
  std::vector<RecordedStep> steps;
  std::string recording;  // what the games of one `eval --record` share; empty for others and once read
  bool cut_off = false;   // the players stopped before the game's own end
  std::optional<PerSnake> n_return;  // a log's sums of rewards
  std::int64_t line = 0;
};

/// The direction in which a living snake with this body moved: from its second cell to its head.
/// kUnknown if they do not touch.
int direction_of(const std::vector<int>& body);

/// A record of the game that starts on this board, and one more step of it. The time of the call is stored as
/// the game's start and end.
RecordedGame begin_record(const game::State& start);
void add_step(RecordedGame& record, const game::Actions& actions, const game::StepResult& result,
              const game::State& after);

/// The game as the platform's JSON, on one line with a line break. Every step's actions must be known.
/// Follows  run_log.py and env/snakes.py of jidiai/Competition_3v3snakes.
std::string game_log_text(const RecordedGame& record);

/// RecordedGame::recording of a file that game_log_text wrote, empty for any other; from the first bytes, for folders of many
/// games.
std::string recording_of(const std::string& path);

/// Whether a team said why it moved.
bool is_explained(const RecordedStep& step);
/// A step's `explanation`, as in docs/reference/formats.md: null for a team without reasons.
nlohmann::ordered_json explanation_json(const std::array<play::Reasons, 2>& reasons);

/// Calls `visit` for each game of a file, plain or gzip: logs, traces, or answers of a service with logs somewhere inside,
/// on lines, one after the other, or in a list. The games have a valid format: lists of the right lengths, cells on the
/// board, a start that the rules allow. Whether the steps follow the rules is checked by verify-trace.
/// Throws  FileError with file, line, step and field if a value has the wrong format or the file is
///         truncated.
void read_games(const std::string& path, const std::function<void(const RecordedGame&)>& visit);

/// Whether read_games would find a game in the file's first object, right or wrong.
bool holds_games(const std::string& path);

/// The n-th of them, from 0. Without a number the first; a line on stderr says how to choose if there are more.
/// Throws  also UsageError if there are fewer.
RecordedGame nth_game(const std::string& path, std::optional<std::int64_t> n);

}  // namespace snake_ddp::io
