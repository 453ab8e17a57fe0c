#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "io/file_error.hpp"
#include "io/open_file.hpp"
#include "snake_ddp/core/descriptor.hpp"
#include "snake_ddp/core/hash.hpp"

namespace snake_ddp::io {
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
    throw core::FileError("cannot write '" + path + "': it is a device or a pipe; give a file's name");
  return target;
}

// Returns 0 or an errno value.
int write_new(const std::string& path, std::string_view bytes, bool sync) {
  core::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.open()) return errno;
  int error = core::write_all(file.get(), bytes);
  if (error == 0 && sync && ::fsync(file.get()) != 0) error = errno;
  const int at_close = file.close();
  return error != 0 ? error : at_close;
}

constexpr std::size_t kHashedPiece = 16UL << 20;

// Without waiting for the folder. `path`: for messages.
void replace_file(const std::filesystem::path& target, std::string_view bytes, const std::string& path,
                  bool sync) {
  if (!target.has_filename()) throw file_error("write", path, EISDIR);
  const std::string temporary = temporary_beside(target);
  int error = write_new(temporary, bytes, sync);
  if (error == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) {
    // After EEXIST or a failed open the file is not ours or does not exist; the name has our pid and a fresh number,
    // so removing it does no harm.
    ::unlink(temporary.c_str());
    throw file_error("write", path, error);
  }
}

void replace_and_sync(const std::filesystem::path& target, std::string_view bytes, const std::string& path) {
  replace_file(target, bytes, path, true);
  const std::filesystem::path folder = target.parent_path();
  const int error = sync_folder(folder.empty() ? "." : folder);
  if (error != 0) throw file_error("sync the folder of", path, error);
}

// The name of a new file with these bytes; empty if there is none.
std::string kept_elsewhere(std::string_view bytes) {
  std::error_code none;
  std::string name = (std::filesystem::temp_directory_path(none) / "snake_ddp.XXXXXX").string();
  if (none) return {};
  const core::Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.open()) return {};
  if (core::write_all(file.get(), bytes) == 0) return name;
  ::unlink(name.c_str());
  return {};
}

}  // namespace

int sync_folder(const std::filesystem::path& folder) {
  const core::Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.open()) return errno;
  return ::fsync(descriptor.get()) == 0 || errno == EINVAL ? 0 : errno;
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  replace_and_sync(path, bytes, path);
}

void write_file_soon(const std::string& path, std::string_view bytes) {
  replace_file(path, bytes, path, false);
}

void sync_files(const std::string& folder) {
  const core::Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.open() || ::syncfs(descriptor.get()) != 0) throw file_error("sync", folder, errno);
}

void write_output(const std::string& path, std::string_view bytes) {
  try {
    replace_and_sync(file_behind(path), bytes, path);
  } catch (const core::FileError& e) {
    const std::string kept = kept_elsewhere(bytes);
    if (kept.empty()) throw;
    throw core::FileError(std::string(e.what()) + " What it was to hold is in " + kept);
  }
}

void check_output(const std::string& path) {
  const std::string temporary = temporary_beside(file_behind(path));
  const int error = write_new(temporary, "", true);
  ::unlink(temporary.c_str());
  if (error != 0) throw file_error("write", path, error);
}

std::string indented(const nlohmann::ordered_json& value) {
  return value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void write_json(const std::string& path, const nlohmann::ordered_json& value) {
  write_file_atomically(path, indented(value));
}

std::string head_of_file(const std::string& path, std::size_t most) {
  try {
    const core::Descriptor file = open_to_read(path);
    std::string head(most, '\0');
    const ssize_t n = ::read(file.get(), head.data(), most);
    head.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return head;
  } catch (const core::FileError&) {
    return {};
  }
}

std::uint64_t hash_of_file(const std::string& path, const std::function<void()>& progress) {
  const core::Descriptor file = open_to_read(path);
  std::uint64_t hash = core::kHashStart;
  std::vector<char> piece(kHashedPiece);
  for (;;) {
    const ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n == 0) return hash;
    if (n > 0) {
      hash = core::add_to_hash(hash, std::string_view(piece.data(), static_cast<std::size_t>(n)));
      if (progress) progress();
    } else if (errno != EINTR) {
      throw file_error("read", path, errno);
    }
  }
}

std::string read_file(const std::string& path) {
  const core::Descriptor file = open_to_read(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw file_error("read", path, errno);
  // Reading one byte more than the size detects the end without another call; files of /proc have size 0 and grow.
  std::size_t used = 0, size = static_cast<std::size_t>(status.st_size) + 1;
  for (std::string bytes;;) {
    if (size > kMostFileBytes + 1) throw core::FileError(too_large(path, size - 1).what());
    bytes.resize(size);
    const ssize_t n = ::read(file.get(), bytes.data() + used, bytes.size() - used);
    if (n < 0 && errno != EINTR) throw file_error("read", path, errno);
    used += n > 0 ? static_cast<std::size_t>(n) : 0;
    if (n == 0) {
      bytes.resize(used);
      return bytes;
    }
    if (used == size) size *= 2;
  }
}

}  // namespace snake_ddp::io
