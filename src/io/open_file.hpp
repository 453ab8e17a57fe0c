// The one place where files are opened. A folder may come from a stranger: a name in it may be a pipe that nobody writes
// to, or a link to one of this user's own files.
#pragma once

#include <string>

#include "io/file_error.hpp"
#include "snake_ddp/core/descriptor.hpp"

namespace snake_ddp::io {

/// The most that is read from a pipe or device, and by read_file at once.
inline constexpr std::size_t kMostFileBytes = std::size_t{1} << 30U;

/// Opens a file for reading. What comes out of a pipe or a device, up to its end, is a file in memory.
/// Waits   for a pipe's next bytes, half a minute at most.
/// Throws  SystemError, also for a folder, or a pipe or device with more than kMostFileBytes.
core::Descriptor open_to_read(const std::string& path);

/// Opens a file for appending; creates it if missing. `also_read`: network file systems lock only such ones.
/// Throws  SystemError, also for a link and for anything that is no regular file.
core::Descriptor open_to_append(const std::string& path, bool also_read = false);

/// Makes a new file in place of a file, link or pipe of that name.
/// Throws  SystemError.
core::Descriptor create_file(const std::string& path);

/// For a link in a run's folder where the run would write: the file behind it may be any of the user's.
SystemError link_error(const std::string& path);

}  // namespace snake_ddp::io
