#include "io/log_file.hpp"

#include <fmt/chrono.h>

#include <cstdint>

#include "io/file_error.hpp"
#include "io/open_file.hpp"
#include "snake_ddp/core/host.hpp"
#include "snake_ddp/core/printable.hpp"

namespace snake_ddp::io {
namespace {

std::string time_of_day() {
  const auto ms = static_cast<std::int64_t>(1e3 * core::seconds_since_1970());
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03} ", fmt::localtime(ms / 1000), ms % 1000);
}

}  // namespace

LogFile::LogFile(std::string path) : path_(std::move(path)), descriptor_(open_to_append(path_)) {}

void LogFile::line(std::string_view text) {
  std::string whole = time_of_day();
  whole.append(core::printable_line(text)).push_back('\n');
  // One write in append mode: lines of several threads and processes do not mix.
  const int error = core::write_all(descriptor_.get(), whole);
  if (error != 0) throw file_error("write", path_, error);
}

}  // namespace snake_ddp::io
