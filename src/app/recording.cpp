#include "app/recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "io/atomic_file.hpp"
#include "io/folders.hpp"
#include "pretrain/import.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/hash.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::app {
namespace {

namespace fs = std::filesystem;

std::string file_of(const RecordingOptions& o, std::int64_t game) {
  return fmt::format("{}/game_{:0{}}.json", o.record, game, std::to_string(o.games - 1).size());
}

// Depends on the games alone, not on the number of ranks; never 0.
std::uint64_t recording_id(const RecordingOptions& o) {
  return core::add_to_hash(core::kHashStart,
                           fmt::format("{}\n{}\n{} {} {} {} {}", o.team_a, o.team_b, o.games, o.seed,
                                       o.swap_sides, o.explain, o.board_interval)) |
         1U;
}

std::string recording_text(const RecordingOptions& o) { return fmt::format("{:016x}", recording_id(o)); }

// Where a rank's boards go. The first one's path is exactly the given one.
std::string boards_path(const fs::path& path, int rank) {
  if (rank == 0) return path.string();
  return fs::path(path)
      .replace_filename(fmt::format("{}_{}{}", path.stem().string(), rank, pretrain::kBoardSetEnding))
      .string();
}

// The logs that a recording in this folder replaces.
std::vector<std::string> replaced_games(const std::string& folder) {
  const auto refuse = [&](const std::string& what) {
    return core::UsageError(
        fmt::format("--record {}: {}: pretrain would learn from both. Name another folder, or move them away",
                    folder, what));
  };
  std::vector<std::string> games;
  std::string earlier;
  std::error_code none;
  for (const std::string& file : pretrain::records_in(folder)) {
    if (!fs::is_regular_file(file, none)) continue;
    const std::string id = io::recording_of(file);
    const bool is_kept = !fs::path(file).filename().string().starts_with("game_");  // by its user
    if (id.empty() ? file.ends_with(pretrain::kBoardSetEnding) || io::holds_games(file) : is_kept)
      throw refuse(fmt::format("{} has games that eval --record did not write under this name", file));
    if (id.empty()) continue;
    if (!earlier.empty() && id != earlier)
      throw refuse(fmt::format("the folder has games of several recordings, among them {}", file));
    earlier = id;
    games.push_back(file);
  }
  return games;
}

}  // namespace

std::array<std::string, 2> names_of(const RecordingOptions& o, std::int64_t game) {
  std::array<std::string, 2> names{o.team_a, o.team_b};
  if (o.swap_sides && game % 2 == 1) std::swap(names[0], names[1]);
  return names;
}

Recording::Recording(const RecordingOptions& options, play::MatchOptions& match, dist::DistContext& context)
    : options_(options) {
  if (options_.record.empty() && options_.record_boards.empty()) return;
  std::string refusal;  // by the first rank, for all
  if (context.is_main()) {
    try {
      replaced_ = replaced(context.size());
    } catch (const core::UsageError& e) {
      refusal = e.what();
    }
  }
  refusal = context.broadcast_text(refusal, context.deadline());
  if (!refusal.empty()) throw core::UsageError(refusal);
  if (!options_.record.empty()) record_games(match);
  if (!options_.record_boards.empty()) record_boards(match, context.rank(), context.size());
}

Recording::Replaced Recording::replaced(int ranks) const {
  Replaced replaced;
  std::error_code none;
  const std::string& record = options_.record;
  if (!record.empty()) replaced.games = replaced_games(record);
  if (options_.record_boards.empty()) return replaced;
  const fs::path folder = fs::path(options_.record_boards).parent_path();
  if (!record.empty() &&
      fs::weakly_canonical(folder.empty() ? "." : folder, none) == fs::weakly_canonical(record, none)) {
    throw core::UsageError(
        fmt::format("--record_boards {}: this is the folder of --record: pretrain would learn from each game "
                    "twice. Name another folder",
                    options_.record_boards));
  }
  replaced.boards = pretrain::recording_of(options_.record_boards);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::string path = boards_path(options_.record_boards, rank);
    const pretrain::Recording found = pretrain::recording_of(path);
    // A recording that was interrupted has no file of the first rank yet.
    const bool own = found.id == recording_id(options_) && found.rank == rank;
    if (fs::exists(path, none) && !own &&
        found != pretrain::Recording{replaced.boards.id, rank, replaced.boards.ranks})
      throw core::UsageError(
          fmt::format("--record_boards {}: rank {} would replace {}, which does not belong to the recording "
                      "{}. Name another file, or move it away",
                      options_.record_boards, rank, path, options_.record_boards));
  }
  return replaced;
}

void Recording::remove_replaced(int ranks) const {
  std::error_code ignored;
  std::size_t games = 0;
  for (const std::string& file : replaced_->games) {
    if (io::recording_of(file) != recording_text(options_)) games += fs::remove(file, ignored) ? 1U : 0U;
  }
  if (games > 0)
    core::tell_error(fmt::format("removed {} of an earlier recording from {}", core::counted(games, "game"),
                                 options_.record));
  for (int rank = ranks; rank < replaced_->boards.ranks; ++rank) {
    const std::string path = boards_path(options_.record_boards, rank);
    if (pretrain::recording_of(path) ==
            pretrain::Recording{replaced_->boards.id, rank, replaced_->boards.ranks} &&
        fs::remove(path, ignored))
      core::tell_error(fmt::format("removed {}, of an earlier recording by more ranks", path));
  }
}

void Recording::record_games(play::MatchOptions& match) {
  io::make_folders(options_.record);
  io::check_output(file_of(options_, 0));
  if (options_.explain) {
    match.on_reasons = [this](std::int64_t number, int team, const play::Reasons& why) {
      reasons_[number][static_cast<std::size_t>(team)] = why;
    };
  }
  match.watch = [this, before = match.watch](std::int64_t number, const game::State& state) {
    if (before) before(number, state);
    if (state.step() > 1) return;
    io::RecordedGame record = io::begin_record(state);
    record.names = names_of(options_, number);
    record.recording = recording_text(options_);
    running_.emplace(number, std::move(record));
  };
  match.on_step = [this, before = match.on_step](std::int64_t number, const game::Actions& actions,
                                                 const game::StepResult& result, const game::State& after) {
    if (before) before(number, actions, result, after);
    const auto record = running_.find(number);
    io::add_step(record->second, actions, result, after);
    if (options_.explain) record->second.steps.back().reasons = std::exchange(reasons_[number], {});
    if (!after.done()) return;
    io::write_file_soon(file_of(options_, number), io::game_log_text(record->second));
    running_.erase(record);
    const int a = options_.swap_sides && number % 2 == 1 ? 1 : 0;
    if (after.team_return(a) < after.team_return(1 - a)) lost_.push_back(number);
  };
}

void Recording::record_boards(play::MatchOptions& match, int rank, int ranks) {
  const fs::path path = boards_path(options_.record_boards, rank);
  if (path.has_parent_path()) io::make_folders(path.parent_path().string());
  boards_ = std::make_unique<pretrain::BoardSetWriter>(
      path.string(), options_.board_interval, pretrain::Recording{recording_id(options_), rank, ranks});
  match.watch = [this, before = match.watch](std::int64_t number, const game::State& state) {
    if (before) before(number, state);
    std::vector<game::State>& boards = boards_of_[number];
    if (!state.done()) {
      if ((state.step() - 1) % options_.board_interval == 0) boards.push_back(state);
      return;
    }
    boards_->add_game(boards);
    boards_of_.erase(number);
  };
}

std::vector<std::string> Recording::complete(dist::DistContext& context) {
  if (boards_ && !context.is_main()) boards_->finish();
  std::vector<std::string> files;
  if (!options_.record.empty()) {
    io::sync_files(options_.record);
    std::vector<std::int64_t> all;
    for (const std::string& ranks : context.gather(nlohmann::json(lost_).dump(), context.deadline()))
      for (const auto& game : nlohmann::json::parse(ranks)) all.push_back(game.get<std::int64_t>());
    std::sort(all.begin(), all.end());
    for (const std::int64_t game : all) files.push_back(file_of(options_, game));
  }
  context.barrier("end of eval", context.deadline());
  if (boards_ && context.is_main()) boards_->finish();  // the last, because the others belong to it
  if (replaced_) remove_replaced(context.size());
  return files;
}

}  // namespace snake_ddp::app
