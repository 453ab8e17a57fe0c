// One way to say that the system refused something to do with a file.
#pragma once

#include <string>
#include <string_view>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::io {

/// "cannot <doing> <path>: <system's words>. <what to do>", for an errno value.
/// Example  throw file_error("write", path, errno);
base::FileError file_error(std::string_view doing, const std::string& path, int error_number);

}  // namespace snake_ddp::io
