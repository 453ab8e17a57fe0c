// Lines of a text file, plain or gzip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct gzFile_s;

namespace snake_ddp::records {

/// Reads a file line by line; line ends (\n or \r\n) are taken off, a last line without one counts.
/// Throws  FileError if the file is missing, unreadable, a truncated or corrupt gzip, or has a line above 16
/// MiB.
class LineReader {
 public:
  explicit LineReader(const std::string& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// The next line into `line`; false at the end of the file.
  bool next(std::string& line);
  /// The number of the line that `next` returned last, from 1.
  [[nodiscard]] std::int64_t line_number() const { return line_number_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  bool fill();

  std::string path_;
  gzFile_s* file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::int64_t line_number_ = 0;
};

}  // namespace snake_ddp::records
