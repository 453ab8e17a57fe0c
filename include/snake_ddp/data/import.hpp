// From recorded games to a set of boards, once for each folder of records.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "snake_ddp/game/game.hpp"
#include "snake_ddp/records/game_log.hpp"

namespace snake_ddp::data {

/// The boards of a record at steps 0, interval, 2 interval ... that are not done. What directions a record leaves out are
/// taken from the bodies.
/// Throws  FileError with `where` for a record whose boards the rules do not allow.
std::vector<game::State> boards_of(const records::RecordedGame& record, std::int64_t interval,
                                   const std::string& where);

/// Where records are: files of the folder `path` that end as logs (.json), traces (.jsonl), both also .gz, or sets of
/// boards; sorted by name. Or the one file `path`.
/// Throws  FileError where there are none.
std::vector<std::string> record_files(const std::string& path);

/// <cache_dir>/<hex>.boards: the hex digits are of names, sizes and times of the files, and the interval.
/// Throws  FileError.
std::string cache_path(const std::string& cache_dir, const std::vector<std::string>& files,
                       std::int64_t interval);

/// Writes the set of all games of the files, in their order. Sets of boards are taken as they are.
/// `threads` read at a time; `progress` is told after each piece how many files are done, in the calling thread.
/// Throws  FileError: the first file in order that cannot be read, or sets whose intervals differ.
void import_records(const std::vector<std::string>& files, std::int64_t interval, int threads,
                    const std::string& set, const std::function<void(std::size_t files_done)>& progress);

}  // namespace snake_ddp::data
