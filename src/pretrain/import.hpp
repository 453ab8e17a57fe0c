// Converts recorded games to a set of boards, once for each folder of records.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dist/context.hpp"
#include "dist/watchdog.hpp"
#include "io/game_log.hpp"
#include "pretrain/options.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::pretrain {

/// The unfinished boards of a record at steps 0, interval, 2 interval ... Directions missing from a record are
/// derived from the bodies.
/// Throws  FileError with `where` for a record whose boards break the rules.
std::vector<game::State> boards_of(const io::RecordedGame& record, std::int64_t interval,
                                   const std::string& where);

/// The files of the folder `path` with the endings of logs (.json), traces (.jsonl), both also with .gz, or sets of
/// boards; sorted by name. Or the single file `path`.
/// Throws  FileError if there are none.
std::vector<std::string> record_files(const std::string& path);

/// Those of a folder, none if it does not exist.
/// Throws  FileError if it cannot be read.
std::vector<std::string> records_in(const std::string& folder);

/// <cache_dir>/<hex>.boards: the hex digits are of the interval and the files' contents. `progress` is called every 16 MiB.
/// Throws  FileError.
std::string cache_path(const std::string& cache_dir, const std::vector<std::string>& files,
                       std::int64_t interval, const std::function<void()>& progress = {});

/// Writes the set of all games of the files, in their order. Sets of boards are copied unchanged.
/// `threads` threads read at a time; `progress` is called after each piece with the number of finished files, in the
/// calling thread.
/// Throws  FileError: the first file in order that cannot be read, or sets whose intervals differ.
void import_records(const std::vector<std::string>& files, std::int64_t interval, int threads,
                    const std::string& set, const std::function<void(std::size_t files_done)>& progress);

/// The set of the games of --data_path. Rank 0 makes it if it does not exist yet, and broadcasts after each piece, so that no
/// rank waits long. `tell` takes lines for the log.
/// Collective.
/// Returns  its path, on all ranks.
/// Throws   UsageError if the cache is among the games; FileError; DistError.
std::string shared_set(const PretrainOptions& options, dist::DistContext& context, dist::Watchdog& watchdog,
                       const std::function<void(const std::string&)>& tell);

}  // namespace snake_ddp::pretrain
