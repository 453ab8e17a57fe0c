// What is in a folder. Nothing here throws the library's own errors, which name no remedy.
#pragma once

#include <string>
#include <vector>

namespace snake_ddp::io {

/// Whether there is a file, folder or device of this name. A link is what it leads to.
/// Throws  SystemError if that cannot be found out: no permission, a loop of links, a name too long.
bool is_there(const std::string& path);
bool is_folder(const std::string& path);

/// Whether the name itself is a link.
bool is_link(const std::string& path);

/// Names in a folder, sorted; none if it is missing.
/// Throws  SystemError.
std::vector<std::string> names_in(const std::string& folder);

/// Without links, "." and ".." taken off.
/// Throws  SystemError if it is relative to a working directory that was deleted.
std::string absolute_path(const std::string& path);

/// Creates a folder in an existing one, unless it exists. A link in its place is refused: files of a run are written into
/// that run's folder alone.
/// Throws  SystemError.
void make_own_folder(const std::string& path);

/// Throws  SystemError if the folder in a run's folder is a link.
void refuse_link(const std::string& path);

}  // namespace snake_ddp::io
