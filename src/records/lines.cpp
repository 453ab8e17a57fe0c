#include "snake_ddp/records/lines.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/records/file_error.hpp"
#include "snake_ddp/records/open_file.hpp"

namespace snake_ddp::records {

namespace {
constexpr std::size_t kLineBuffer = 1 << 16;
constexpr std::size_t kMaxLineBytes = 16U << 20U;
}  // namespace

LineReader::LineReader(const std::string& path) : path_(path), file_(nullptr), buffer_(kLineBuffer) {
  base::Descriptor file = open_to_read(path);
  file_ = gzdopen(file.get(), "rb");  // reads plain files unchanged
  if (file_ == nullptr) throw file_error("read", path, ENOMEM);
  file.release();
}

LineReader::~LineReader() { gzclose_r(file_); }

bool LineReader::fill() {
  errno = 0;
  const int n = gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
  const int system_error = errno;
  int code = Z_OK;
  const std::string reason = gzerror(file_, &code);
  // A truncated gzip first returns the data that it has, then Z_BUF_ERROR.
  if (n < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    if (code == Z_ERRNO) throw file_error("read", path_, system_error);
    const std::string why = code == Z_BUF_ERROR ? "the compressed data are truncated" : reason;
    throw base::FileError(fmt::format(
        "cannot read {} after line {}: {}; the file is truncated or corrupt; fetch or write it again", path_,
        line_number_, why));
  }
  begin_ = 0;
  end_ = static_cast<std::size_t>(n);
  return n > 0;
}

bool LineReader::next(std::string& line) {
  line.clear();
  bool any = false;
  for (;;) {
    if (begin_ == end_ && !fill()) break;
    any = true;
    const char* const from = buffer_.data() + begin_;
    const void* const found = std::memchr(from, '\n', end_ - begin_);
    const std::size_t n =
        found != nullptr ? static_cast<std::size_t>(static_cast<const char*>(found) - from) : end_ - begin_;
    line.append(from, n);
    begin_ += n + (found != nullptr ? 1 : 0);
    if (line.size() > kMaxLineBytes)
      throw base::FileError(fmt::format("{}:{}: a line of more than 16 MiB; this is not a JSON-lines file",
                                        path_, line_number_ + 1));
    if (found != nullptr) break;
  }
  if (!any) return false;
  ++line_number_;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return true;
}

}  // namespace snake_ddp::records
