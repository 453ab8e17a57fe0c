// LD_PRELOAD=libfaulty_disk.so SD_FAULT="open:rank_1.pth:13": every open() of a path with this ending fails with that
// errno value; likewise fopen(), which counts as open(), read() and stat(). With SD_FAULT_WHEN only while that path
// exists.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// The errno value to fail with; 0 to succeed.
int fault(std::string_view operation, std::string_view path) {
  const char* setting = std::getenv("SD_FAULT");
  if (setting == nullptr) return 0;
  const char* when = std::getenv("SD_FAULT_WHEN");
  if (when != nullptr && ::access(when, F_OK) != 0) return 0;
  const std::string_view all(setting);
  const std::size_t name = all.find(':') + 1, number = all.rfind(':') + 1;
  if (all.substr(0, name - 1) != operation || !path.ends_with(all.substr(name, number - 1 - name))) return 0;
  return std::atoi(setting + number);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    std::va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  if (const int error = fault("open", path); error != 0) {
    errno = error;
    return -1;
  }
  static const auto open_really = real<int(const char*, int, ...)>("open");
  return open_really(path, flags, mode);
}

FILE* fopen64(const char* path, const char* mode) {  // what the standard library's streams call
  static const auto open_really = real<FILE*(const char*, const char*)>("fopen64");
  const int error = fault("open", path);
  if (error == 0) return open_really(path, mode);
  errno = error;
  return nullptr;
}

ssize_t read(int descriptor, void* to, std::size_t bytes) {
  static const auto read_really = real<ssize_t(int, void*, std::size_t)>("read");
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  const int error = length > 0 ? fault("read", {path.data(), static_cast<std::size_t>(length)}) : 0;
  if (error == 0) return read_really(descriptor, to, bytes);
  errno = error;
  return -1;
}

int stat(const char* path, struct stat* status) noexcept {
  static const auto stat_really = real<int(const char*, struct stat*)>("stat");
  const int error = fault("stat", path);
  if (error == 0) return stat_really(path, status);
  errno = error;
  return -1;
}

// The same under the names that programs of older C libraries call. LibTorch includes such code.
int __xstat(int /*version*/, const char* path, struct stat* status) {  // NOLINT(bugprone-reserved-identifier)
  return stat(path, status);
}

}  // extern "C"
