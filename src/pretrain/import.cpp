#include "pretrain/import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <optional>
#include <string_view>
#include <thread>

#include "io/atomic_file.hpp"
#include "io/file_error.hpp"
#include "io/folders.hpp"
#include "pretrain/board_set.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/hash.hpp"
#include "snake_ddp/core/host.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/position.hpp"

namespace snake_ddp::pretrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFilesAPiece = 64;
constexpr std::string_view kEndings[] = {".json", ".jsonl", ".json.gz", ".jsonl.gz", kBoardSetEnding};

bool is_board_set(const std::string& path) { return path.ends_with(kBoardSetEnding); }

// The games of one file of logs or traces.
std::vector<std::vector<game::State>> games_of(const std::string& path, std::int64_t interval) {
  std::vector<std::vector<game::State>> games;
  io::read_games(path, [&](const io::RecordedGame& record) {
    games.push_back(boards_of(record, interval, fmt::format("{}:{}", path, record.line)));
  });
  if (games.empty())
    throw core::FileError(path + ": contains no game. Remove it from the folder, or record it again");
  return games;
}

}  // namespace

std::vector<game::State> boards_of(const io::RecordedGame& record, std::int64_t interval,
                                   const std::string& where) {
  std::vector<game::State> boards;
  game::Position position{record.start};
  for (std::size_t step = 0; step <= record.steps.size(); ++step) {
    if (step > 0) {
      const io::RecordedStep& played = record.steps[step - 1];
      static_cast<game::Layout&>(position) = played.after;
      for (std::size_t i = 0; i < game::kSnakes; ++i) {
        position.returns[i / game::kTeamSize] += played.reward[i];
        if (position.directions[i] == io::kUnknown)
          position.directions[i] = io::direction_of(position.snakes[i]);
      }
      position.step = static_cast<int>(step) + 1;
      // A log's last board may lack the directions of snakes that died; a finished game's board is skipped. Without a
      // result in the log it shows whether it is one.
      const bool last = step == record.steps.size();
      const bool over =
          position.step > game::kMaxSteps || std::any_of(position.snakes.begin(), position.snakes.end(),
                                                         [](const auto& body) { return body.empty(); });
      if (played.done.value_or(last && (over || !record.cut_off))) break;
      if (last && std::count(position.directions.begin(), position.directions.end(), io::kUnknown) > 0) break;
    }
    if (step % static_cast<std::size_t>(interval) != 0) continue;
    const std::string fault = game::fault_of(position);
    if (!fault.empty())
      throw core::FileError(fmt::format("{}: the board after step {}: {}", where, step, fault));
    boards.push_back(game::make_state(position));
  }
  return boards;
}

std::vector<std::string> records_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const std::string& name : io::names_in(folder)) {
    const bool known = std::any_of(std::begin(kEndings), std::end(kEndings),
                                   [&](std::string_view ending) { return name.ends_with(ending); });
    if (known && !name.starts_with(".")) files.push_back((fs::path(folder) / name).string());
  }
  return files;
}

std::vector<std::string> record_files(const std::string& path) {
  if (!io::is_folder(path)) {
    if (!io::is_there(path)) throw io::file_error("read", path, ENOENT);
    return {path};
  }
  std::vector<std::string> files = records_in(path);
  if (files.empty()) {
    throw core::FileError(fmt::format(
        "{} contains no recorded games (*.json, *.jsonl, the same with .gz, *.boards): record some "
        "with snake_ddp eval --record_boards",
        path));
  }
  return files;
}

std::string cache_path(const std::string& cache_dir, const std::vector<std::string>& files,
                       std::int64_t interval, const std::function<void()>& progress) {
  std::uint64_t hash = core::add_to_hash(core::kHashStart, fmt::format("set 2, interval {}\n", interval));
  for (const std::string& file : files) {
    const std::uint64_t contents = io::hash_of_file(file, progress);
    hash = core::add_to_hash(hash, fmt::format("{} {:016x}\n", is_board_set(file), contents));
  }
  return fmt::format("{}/{:016x}{}", cache_dir, hash, kBoardSetEnding);
}

void import_records(const std::vector<std::string>& files, std::int64_t interval, int threads,
                    const std::string& set, const std::function<void(std::size_t)>& progress) {
  std::optional<std::int64_t> recorded;  // interval of the sets among the files
  for (const std::string& file : files) {
    if (!is_board_set(file)) continue;
    const BoardSet part(file);
    if (recorded.value_or(part.interval()) != part.interval()) {
      throw core::FileError(fmt::format(
          "{} has a board every {}, other sets in its folder one every {}: keep sets with different "
          "intervals in different folders",
          file, core::counted(part.interval(), "step"), *recorded));
    }
    recorded = part.interval();
  }
  BoardSetWriter writer(set, recorded.value_or(interval));
  for (std::size_t begin = 0; begin < files.size(); begin += kFilesAPiece) {
    const std::size_t count = std::min(kFilesAPiece, files.size() - begin);
    std::vector<std::vector<std::vector<game::State>>> games(count);
    std::vector<std::exception_ptr> failures(count);
    const auto read = [&](std::size_t first) {
      for (std::size_t k = first; k < count; k += static_cast<std::size_t>(threads)) {
        if (is_board_set(files[begin + k])) continue;
        try {
          games[k] = games_of(files[begin + k], interval);
        } catch (...) {  // a thread's entry: the caller rethrows it
          failures[k] = std::current_exception();
        }
      }
    };
    std::vector<std::jthread> readers;
    for (int t = 1; t < threads; ++t) readers.emplace_back(read, static_cast<std::size_t>(t));
    read(0);
    readers.clear();
    for (std::size_t k = 0; k < count; ++k) {
      if (failures[k]) std::rethrow_exception(failures[k]);
      for (const std::vector<game::State>& game : games[k]) writer.add_game(game);
      if (!is_board_set(files[begin + k])) continue;
      const BoardSet part(files[begin + k]);
      for (std::int64_t g = 0; g < part.games(); ++g) writer.add_game(part.game(g));
    }
    progress(begin + count);
  }
  writer.finish();
}

std::string shared_set(const PretrainOptions& o, dist::DistContext& context, dist::Watchdog& watchdog,
                       const std::function<void(const std::string&)>& tell) {
  std::string path;
  if (context.is_main()) {
    std::error_code error;  // of a folder that does not exist; record_files reports it
    if (fs::equivalent(o.cache_dir, o.data_path, error)) {
      throw core::UsageError(fmt::format(
          "--cache_dir {} is the folder of --data_path: the cache would be read as more games; name another",
          o.cache_dir));
    }
    const std::vector<std::string> files = record_files(o.data_path);
    const auto go_on = [&] {
      watchdog.tick("reading records");
      context.broadcast_text("", context.deadline());
    };
    path = cache_path(o.cache_dir, files, o.board_interval, go_on);
    std::optional<std::string> damage;
    if (io::is_there(path)) {
      try {
        const BoardSet there(path);
      } catch (const core::FileError& e) {
        damage = e.what();
      }
    }
    if (damage) tell("Rebuilt the cache: " + *damage);
    if (damage || !io::is_there(path)) {
      const auto begin = std::chrono::steady_clock::now();
      const int threads = std::max<int>(1, static_cast<int>(o.num_workers));
      import_records(files, o.board_interval, threads, path, [&](std::size_t) { go_on(); });
      tell(fmt::format("Cached {} as {} in {:.1f} s",
                       core::counted(static_cast<std::int64_t>(files.size()), "file"), path,
                       std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()));
    }
    return context.broadcast_text(io::absolute_path(path), context.deadline());
  }
  while (path.empty()) {
    path = context.broadcast_text("", context.deadline());
    watchdog.tick("waiting for records");
  }
  if (!io::is_there(path))
    throw core::FileError(
        fmt::format("{} does not exist on {}: put --cache_dir on storage that all machines share", path,
                    core::host_name()));
  return path;
}

}  // namespace snake_ddp::pretrain
