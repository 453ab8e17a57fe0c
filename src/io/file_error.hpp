// What can be wrong with a file: the system refused access, it is damaged, or (plain FileError) it cannot be used here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "snake_ddp/core/error.hpp"

namespace snake_ddp::io {

/// The system refused an operation. This says nothing about the file's contents.
struct SystemError : core::FileError {
  SystemError(const std::string& message, int error_number)
      : core::FileError(message), number(error_number) {}
  int number;  // an errno value

  /// Whether the file does not exist, as opposed to being inaccessible.
  [[nodiscard]] bool is_missing() const;
};

/// Proof of damage: the file was read and differs from what was written, or its folder was read and it is missing.
struct DamagedFile : core::FileError {
  using core::FileError::FileError;
};

/// "cannot <doing> <path>: <system's message>. <advice>", for an errno value.
/// Example  throw file_error("write", path, errno);
SystemError file_error(std::string_view doing, const std::string& path, int error_number);

/// For a file that has, or goes on after, more bytes than any file of ours.
SystemError too_large(const std::string& path, std::size_t bytes);

}  // namespace snake_ddp::io
