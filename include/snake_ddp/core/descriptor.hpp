// A file descriptor that closes itself, and a write that writes everything.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

namespace snake_ddp::core {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] bool open() const { return fd_ >= 0; }
  [[nodiscard]] int get() const { return fd_; }

  /// Closes now; returns 0 or an errno value (network file systems report a full disk here).
  int close() { return ::close(release()) == 0 ? 0 : errno; }
  /// From here on the caller closes it.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// Writes everything. A non-blocking pipe or terminal may keep it waiting for `patience`, then it returns ETIMEDOUT.
/// Returns 0 or an errno value; in that case a part may have been written.
inline int write_all(int fd, std::string_view bytes,
                     std::chrono::milliseconds patience = std::chrono::hours(1)) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (n == 0) {
      return EIO;
    } else if (errno == EAGAIN) {  // another process that shares the descriptor made it non-blocking
      pollfd ready{fd, POLLOUT, 0};
      if (::poll(&ready, 1, static_cast<int>(patience.count())) == 0) return ETIMEDOUT;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace snake_ddp::core
