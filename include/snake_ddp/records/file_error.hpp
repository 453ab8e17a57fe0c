// What can be wrong with a file: the system refused it, it is damaged, or, as a plain FileError, it is of no use here.
#pragma once

#include <string>
#include <string_view>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::records {

/// The system refused something. It says nothing about what is in the file.
struct SystemError : base::FileError {
  SystemError(const std::string& message, int error_number)
      : base::FileError(message), number(error_number) {}
  int number;  // an errno value

  /// Whether nothing has that name, as opposed to something that cannot be looked at.
  [[nodiscard]] bool is_missing() const;
};

/// Proof of damage: the file was read and is not what was written, or its folder was read and it is missing there.
struct DamagedFile : base::FileError {
  using base::FileError::FileError;
};

/// "cannot <doing> <path>: <system's words>. <what to do>", for an errno value.
/// Example  throw file_error("write", path, errno);
SystemError file_error(std::string_view doing, const std::string& path, int error_number);

}  // namespace snake_ddp::records
