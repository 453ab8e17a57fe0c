// Files at paths that the user typed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace snake_ddp::records {

/// Writes like write_file_atomically, but a link stays, and the file behind it is written. If that fails, the bytes are kept in
/// a file of the folder for temporary ones, which the message names.
/// Throws  FileError, also for a device or a pipe.
void write_output(const std::string& path, std::string_view bytes);

/// Whether write_output could write a file there, before the work that it is for. Changes no file.
/// Throws  what that would throw.
void check_output(const std::string& path);

/// JSON as write_json writes it.
std::string indented(const nlohmann::ordered_json& value);

}  // namespace snake_ddp::records
