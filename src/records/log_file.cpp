#include "snake_ddp/records/log_file.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>

#include <chrono>

#include "snake_ddp/records/file_error.hpp"

namespace snake_ddp::records {
namespace {

std::string time_of_day() {
  using std::chrono::milliseconds;
  const auto ms =
      std::chrono::floor<milliseconds>(std::chrono::system_clock::now()).time_since_epoch().count();
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03} ", fmt::localtime(ms / 1000), ms % 1000);
}

}  // namespace

LogFile::LogFile(std::string path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (!descriptor_.open()) throw file_error("open", path_, errno);
}

void LogFile::line(std::string_view text) {
  std::string whole = time_of_day();
  whole.append(text).push_back('\n');
  // One write in append mode: lines of several threads and processes do not mix.
  const int error = base::write_all(descriptor_.get(), whole);
  if (error != 0) throw file_error("write", path_, error);
}

}  // namespace snake_ddp::records
