// Makes the system refuse writes within a scope.
#pragma once

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <functional>
#include <string>

#include "snake_ddp/core/error.hpp"

namespace snake_ddp::io {

/// Files of this process cannot grow beyond `bytes`: a write then fails as on a full disk, after a part was written.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &old_) == 0);
    const rlimit limit{bytes, old_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

/// A folder that may be read but not written. Permission bits do not restrict root, so root becomes nobody
/// meanwhile.
class ReadOnly {
 public:
  explicit ReadOnly(std::string folder) : folder_(std::move(folder)), was_root_(::geteuid() == 0) {
    REQUIRE(::chmod(folder_.c_str(), 0555) == 0);
    if (was_root_) REQUIRE(::seteuid(65534) == 0);
  }
  ReadOnly(const ReadOnly&) = delete;
  ReadOnly& operator=(const ReadOnly&) = delete;
  ~ReadOnly() {
    if (was_root_ && ::seteuid(0) != 0) std::abort();
    ::chmod(folder_.c_str(), 0755);
  }

 private:
  std::string folder_;
  bool was_root_;
};

/// The message of the FileError that `action` must throw.
inline std::string file_error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const core::FileError& error) {
    return error.what();
  }
  return "no FileError";
}

}  // namespace snake_ddp::io
