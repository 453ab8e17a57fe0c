#include "snake_ddp/records/log_file.hpp"

#include <fmt/chrono.h>

#include <cstdint>

#include "snake_ddp/base/host.hpp"
#include "snake_ddp/base/printable.hpp"
#include "snake_ddp/records/file_error.hpp"
#include "snake_ddp/records/open_file.hpp"

namespace snake_ddp::records {
namespace {

std::string time_of_day() {
  const auto ms = static_cast<std::int64_t>(1e3 * base::seconds_since_1970());
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03} ", fmt::localtime(ms / 1000), ms % 1000);
}

}  // namespace

LogFile::LogFile(std::string path) : path_(std::move(path)), descriptor_(open_to_append(path_)) {}

void LogFile::line(std::string_view text) {
  std::string whole = time_of_day();
  whole.append(base::printable_line(text)).push_back('\n');
  // One write in append mode: lines of several threads and processes do not mix.
  const int error = base::write_all(descriptor_.get(), whole);
  if (error != 0) throw file_error("write", path_, error);
}

}  // namespace snake_ddp::records
