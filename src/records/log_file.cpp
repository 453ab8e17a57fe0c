#include "snake_ddp/records/log_file.hpp"

#include <fcntl.h>
#include <sys/time.h>

#include <array>
#include <cstdio>
#include <ctime>

#include "snake_ddp/records/descriptor.hpp"
#include "snake_ddp/records/file_error.hpp"

namespace snake_ddp::records {
namespace {

std::string time_of_day() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm local{};
  ::localtime_r(&now.tv_sec, &local);
  std::array<char, 32> seconds{};
  std::strftime(seconds.data(), seconds.size(), "%Y-%m-%d %H:%M:%S", &local);
  std::array<char, 8> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%03d ", static_cast<int>(now.tv_nsec / 1'000'000) % 1000);
  return std::string(seconds.data()) + fraction.data();
}

}  // namespace

LogFile::LogFile(std::string path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) throw file_error("open", path_, errno);
}

LogFile::~LogFile() { ::close(descriptor_); }

void LogFile::line(std::string_view text) {
  std::string whole = time_of_day();
  whole.append(text).push_back('\n');
  // One write in append mode: lines of several threads and processes do not mix.
  const int error = write_all(descriptor_, whole);
  if (error != 0) throw file_error("write", path_, error);
}

}  // namespace snake_ddp::records
