#include "snake_ddp/records/atomic_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "snake_ddp/base/descriptor.hpp"
#include "snake_ddp/records/file_error.hpp"

namespace snake_ddp::records {
namespace {

// The name is hidden and has another ending than `path`, so that code that lists the folder does not take it for one
// of our files.
std::string temporary_beside(const std::filesystem::path& path) {
  static std::atomic<unsigned> next{0};
  std::string hidden(".");
  hidden += path.filename().string() + ".tmp-" + std::to_string(::getpid()) + "-" +
            std::to_string(next.fetch_add(1));
  return (path.parent_path() / hidden).string();
}

constexpr int kMostLinks = 40;  // as the system follows

// The file that a link leads to, so that the link remains; `path` itself if it is no link. A rename would replace a
// device or a pipe by a file.
std::filesystem::path file_behind(const std::string& path) {
  std::filesystem::path target(path);
  if (!target.has_filename()) throw file_error("write", path, EISDIR);
  std::error_code missing, error;
  for (int links = 0; links < kMostLinks && std::filesystem::is_symlink(target, missing); ++links)
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
  if (error) throw file_error("write", path, error.value());
  struct stat status {};
  if (::stat(target.c_str(), &status) != 0)
    return target;  // there is none yet; or the write says what is wrong
  if (S_ISDIR(status.st_mode)) throw file_error("write", path, EISDIR);
  if (!S_ISREG(status.st_mode))
    throw base::FileError("cannot write '" + path + "': it is a device or a pipe; give a file's name");
  return target;
}

// Returns 0 or an errno value.
int write_and_sync(const std::string& path, std::string_view bytes) {
  base::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.open()) return errno;
  int error = base::write_all(file.get(), bytes);
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  const int at_close = file.close();
  return error != 0 ? error : at_close;
}

constexpr int kLongestWait_ms = 30'000;           // for the next bytes of a pipe
constexpr std::size_t kMostFromPipe = 1UL << 30;  // /dev/zero never ends

// Waits until a pipe can be read. Returns 0 or an errno value.
int await_more(int descriptor) {
  pollfd waiting{descriptor, POLLIN, 0};
  const int ready = ::poll(&waiting, 1, kLongestWait_ms);
  return ready > 0 || (ready < 0 && errno == EINTR) ? 0 : ready == 0 ? ETIMEDOUT : errno;
}

// Returns 0 or an errno value. Some file systems cannot sync a folder and say EINVAL.
int sync_folder(const std::filesystem::path& folder) {
  const base::Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.open()) return errno;
  return ::fsync(descriptor.get()) == 0 || errno == EINVAL ? 0 : errno;
}

}  // namespace

void write_file_atomically(const std::string& path, std::string_view bytes) {
  const std::filesystem::path target = file_behind(path);
  const std::string temporary = temporary_beside(target);
  int error = write_and_sync(temporary, bytes);
  if (error == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) {
    // After EEXIST or a failed open the file is not ours or does not exist; the name has our pid and a fresh number,
    // so removing it does no harm.
    ::unlink(temporary.c_str());
    throw file_error("write", path, error);
  }
  const std::filesystem::path folder = target.parent_path();
  error = sync_folder(folder.empty() ? "." : folder);
  if (error != 0) throw file_error("sync the folder of", path, error);
}

void check_writable(const std::string& path) {
  const std::string temporary = temporary_beside(file_behind(path));
  const int error = write_and_sync(temporary, "");
  ::unlink(temporary.c_str());
  if (error != 0) throw file_error("write", path, error);
}

void write_json(const std::string& path, const nlohmann::ordered_json& value) {
  write_file_atomically(path, value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void make_folders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw file_error("make folder", path, error.value());
}

std::string read_file(const std::string& path) {
  // Opening a pipe that nobody writes to would wait without a limit.
  const base::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.open()) throw file_error("read", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw file_error("read", path, errno);
  if (S_ISDIR(status.st_mode)) throw file_error("read", path, EISDIR);
  // Reading one byte more than the size detects the end without another call; pipes and /proc have size 0 and grow.
  std::string bytes(static_cast<std::size_t>(status.st_size) + 1, '\0');
  std::size_t used = 0;
  for (;;) {
    if (used == bytes.size()) {
      if (!S_ISREG(status.st_mode) && used > kMostFromPipe) throw file_error("read", path, EFBIG);
      bytes.resize(2 * bytes.size());
    }
    const ssize_t n = ::read(file.get(), bytes.data() + used, bytes.size() - used);
    if (n == 0) break;
    if (n > 0) {
      used += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      if (const int error = await_more(file.get()); error != 0) throw file_error("read", path, error);
    } else if (errno != EINTR) {
      throw file_error("read", path, errno);
    }
  }
  bytes.resize(used);
  return bytes;
}

}  // namespace snake_ddp::records
