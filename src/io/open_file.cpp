#include "io/open_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "io/file_error.hpp"

namespace snake_ddp::io {
namespace {

constexpr int kLongestWait_ms = 30'000;  // for the next bytes of a pipe

// Waits until a pipe can be read. Returns 0 or an errno value.
int await_more(int descriptor) {
  pollfd waiting{descriptor, POLLIN, 0};
  const int ready = ::poll(&waiting, 1, kLongestWait_ms);
  return ready > 0 || (ready < 0 && errno == EINTR) ? 0 : ready == 0 ? ETIMEDOUT : errno;
}

// Returns 0 or an errno value.
// Throws  SystemError after more bytes than any file has.
int copy_to_end(int from, int to, const std::string& path) {
  std::array<char, 1 << 16> piece;
  for (std::size_t copied = 0;;) {
    const ssize_t n = ::read(from, piece.data(), piece.size());
    if (n == 0) return ::lseek(to, 0, SEEK_SET) == 0 ? 0 : errno;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) return errno;
    copied += n < 0 ? 0 : static_cast<std::size_t>(n);
    if (copied > kMostFileBytes) throw too_large(path, copied);  // /dev/zero never ends
    const int error =
        n < 0 ? await_more(from) : core::write_all(to, {piece.data(), static_cast<std::size_t>(n)});
    if (error != 0) return error;
  }
}

struct stat status_of(const core::Descriptor& file, std::string_view doing, const std::string& path) {
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) throw file_error(doing, path, errno);
  if (S_ISDIR(status.st_mode)) throw file_error(doing, path, EISDIR);
  return status;
}

}  // namespace

core::Descriptor open_to_read(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would wait without a limit.
  core::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (S_ISREG(status_of(file, "read", path).st_mode)) return file;
  core::Descriptor copy(::memfd_create("snake_ddp pipe", MFD_CLOEXEC));
  if (!copy.open()) throw file_error("read", path, errno);
  if (const int error = copy_to_end(file.get(), copy.get(), path); error != 0)
    throw file_error("read", path, error);
  return copy;
}

core::Descriptor open_to_append(const std::string& path, bool also_read) {
  const int flags = (also_read ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND;
  core::Descriptor file(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0666));
  if (!file.open() && errno == ELOOP) throw link_error(path);
  if (!S_ISREG(status_of(file, "open", path).st_mode))
    throw SystemError("cannot write '" + path + "': it is a device or a pipe; replace it by a file", EINVAL);
  return file;
}

core::Descriptor create_file(const std::string& path) {
  ::unlink(path.c_str());  // if it cannot be removed, the next line says why
  core::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.open()) throw file_error("write", path, errno);
  return file;
}

}  // namespace snake_ddp::io
