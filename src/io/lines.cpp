#include "io/lines.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/file_error.hpp"
#include "io/open_file.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::io {

namespace {
constexpr std::size_t kPieceBytes = 1 << 16;
constexpr std::size_t kMaxLineBytes = 16U << 20U;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
}  // namespace

ByteReader::ByteReader(const std::string& path) : path_(path), file_(nullptr), buffer_(kPieceBytes) {
  core::Descriptor file = open_to_read(path);
  file_ = gzdopen(file.get(), "rb");  // reads plain files unchanged
  if (file_ == nullptr) throw file_error("read", path, ENOMEM);
  file.release();
}

ByteReader::~ByteReader() { gzclose_r(file_); }

std::string_view ByteReader::next() {
  errno = 0;
  const int n = gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
  const int system_error = errno;
  int code = Z_OK;
  const std::string reason = gzerror(file_, &code);
  // A truncated gzip first returns the data that it has, then Z_BUF_ERROR.
  if (n < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    if (code == Z_ERRNO) throw file_error("read", path_, system_error);
    const std::string why = code == Z_BUF_ERROR ? "the compressed data are truncated" : reason;
    throw core::FileError(fmt::format(
        "cannot read {} after line {}: {}; the file is truncated or corrupt; fetch or write it again", path_,
        lines_, why));
  }
  std::string_view piece(buffer_.data(), static_cast<std::size_t>(n));
  lines_ += std::count(piece.begin(), piece.end(), '\n');
  if (!begun_ && piece.starts_with(kByteOrderMark)) piece.remove_prefix(kByteOrderMark.size());
  begun_ = true;
  return piece;
}

bool LineReader::next(std::string& line) {
  line.clear();
  bool any = false;
  for (;;) {
    if (left_.empty() && (left_ = bytes_.next()).empty()) break;
    any = true;
    const std::size_t found = left_.find('\n');
    line.append(left_.substr(0, found));
    left_.remove_prefix(found == left_.npos ? left_.size() : found + 1);
    if (line.size() > kMaxLineBytes)
      throw core::FileError(fmt::format("{}:{}: a line of more than 16 MiB; this is not a JSON-lines file",
                                        path(), line_number_ + 1));
    if (found != left_.npos) break;
  }
  if (!any) return false;
  ++line_number_;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return true;
}

}  // namespace snake_ddp::io
