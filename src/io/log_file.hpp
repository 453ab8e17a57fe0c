// train.log: the console's lines, with the time of day.
#pragma once

#include <string>
#include <string_view>

#include "snake_ddp/core/descriptor.hpp"

namespace snake_ddp::io {

/// Appends lines to a file; each is passed to the system at once, so a killed process loses none.
/// Threads  may be called from several at once; lines do not mix.
class LogFile {
 public:
  /// Opens `path` with open_to_append.
  explicit LogFile(std::string path);

  /// Writes "2026-01-31 23:59:59.123 text", as printable_line() has it.
  /// Throws  FileError.
  void line(std::string_view text);

 private:
  std::string path_;
  core::Descriptor descriptor_;
};

}  // namespace snake_ddp::io
