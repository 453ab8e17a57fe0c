// Text files, plain or gzip: their bytes, and their lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct gzFile_s;

namespace snake_ddp::io {

/// Reads a file piece by piece. A byte order mark at its start is left out.
/// Throws  FileError if the file is missing, unreadable, or a truncated or corrupt gzip.
class ByteReader {
 public:
  explicit ByteReader(const std::string& path);
  ~ByteReader();
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  /// The next piece, valid until the next call; empty at the end of the file.
  std::string_view next();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  gzFile_s* file_;
  std::vector<char> buffer_;
  std::int64_t lines_ = 0;  // that were read
  bool begun_ = false;
};

/// Reads a file line by line; line ends (\n or \r\n) are taken off, a last line without one counts.
/// Throws  FileError as ByteReader, or if a line has more than 16 MiB.
class LineReader {
 public:
  explicit LineReader(const std::string& path) : bytes_(path) {}

  /// The next line into `line`; false at the end of the file.
  bool next(std::string& line);
  /// The number of the line that `next` returned last, from 1.
  [[nodiscard]] std::int64_t line_number() const { return line_number_; }
  [[nodiscard]] const std::string& path() const { return bytes_.path(); }

 private:
  ByteReader bytes_;
  std::string_view left_;
  std::int64_t line_number_ = 0;
};

}  // namespace snake_ddp::io
