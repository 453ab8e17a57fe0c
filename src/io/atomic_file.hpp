// Complete files: read at once, or replaced so that no reader sees a partial one; and folders for them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace snake_ddp::io {

/// Replaces `path` by `bytes`: a temporary file in the same folder, fsync, rename, fsync of the folder. On
/// an error the old file is intact and no temporary file is left. A link is replaced, not followed: write_output is for
/// paths that the user typed.
/// Threads     may be called from several at once; the last rename wins.
/// Throws      FileError, with advice for a full disk, a read-only or a missing folder.
void write_file_atomically(const std::string& path, std::string_view bytes);

/// Replaces a file without waiting for the disk, for many files that can be made again: no reader sees a partial one, but after a
/// crash of the machine before sync_files they may be empty.
void write_file_soon(const std::string& path, std::string_view bytes);

/// Waits until all that was written to the folder's file system is on the disk.
/// Throws      FileError.
void sync_files(const std::string& folder);

/// Indented JSON with a final line break, written by write_file_atomically. Bytes that are not UTF-8 become U+FFFD.
void write_json(const std::string& path, const nlohmann::ordered_json& value);

/// Creates the folder and its missing parents.
/// Throws  FileError.
void make_folders(const std::string& path);

/// The file's first bytes, at most `most`; none if it cannot be read.
std::string head_of_file(const std::string& path, std::size_t most);

/// A hash of the file's bytes, to recognise contents whatever the file's name and times are. `progress` is called every 16
/// MiB.
/// Throws  FileError.
std::uint64_t hash_of_file(const std::string& path, const std::function<void()>& progress = {});

/// The file's bytes, opened by open_to_read.
/// Throws  FileError, also for more than kMostFileBytes.
std::string read_file(const std::string& path);

/// Writes like write_file_atomically, but a link stays, and the file behind it is written. If that fails, the bytes are kept in
/// a file of the folder for temporary ones, which the message names.
/// Throws  FileError, also for a device or a pipe.
void write_output(const std::string& path, std::string_view bytes);

/// Whether write_output could write a file there, before the work that it is for. Changes no file.
/// Throws  what that would throw.
void check_output(const std::string& path);

/// JSON as write_json writes it.
std::string indented(const nlohmann::ordered_json& value);

/// Some file systems cannot sync a folder, which is no error.
/// Returns  0 or an errno value.
int sync_folder(const std::filesystem::path& folder);

}  // namespace snake_ddp::io
