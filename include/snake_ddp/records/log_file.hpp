// train.log: the console's lines, with the time of day.
#pragma once

#include <string>
#include <string_view>

namespace snake_ddp::records {

/// Appends lines to a file; each is passed to the system at once, so a killed process loses none.
/// Threads  may be called from several at once; lines do not mix.
class LogFile {
 public:
  /// Opens `path` for appending; creates it if missing.
  /// Throws  FileError.
  explicit LogFile(std::string path);
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  ~LogFile();

  /// Writes "2026-01-31 23:59:59.123 text"; line breaks within `text` stay.
  /// Throws  FileError.
  void line(std::string_view text);

 private:
  std::string path_;
  int descriptor_;
};

}  // namespace snake_ddp::records
