// ./snake_ddp itself: holds the signals of a run and becomes the program beside this folder, which needs a second to
// load its libraries and cannot handle signals before, or say what is wrong if it cannot run. Links only the C library, so
// that it starts at once. `--become PROGRAM ARGUMENTS`, for the scripts in launch/: the same with another program.
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "snake_ddp/core/run_signals.hpp"

namespace {

int become(const char* program, char** argv) {
  ::execvp(program, argv);
  std::fprintf(stderr, "snake_ddp: cannot start %s: %s; build it with ./train_ddp.sh --help\n", program,
               std::strerror(errno));
  return 4;
}

// Raises the limit where it may. Training needs more than half a MiB of stack, of the main thread and of others.
bool has_stack() {
  constexpr rlim_t kUsual = 8 << 20, kLeast = 1 << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kUsual) return true;
  limit.rlim_cur = limit.rlim_max < kUsual ? limit.rlim_max : kUsual;
  ::setrlimit(RLIMIT_STACK, &limit);
  if (limit.rlim_cur >= kLeast) return true;
  std::fprintf(
      stderr,
      "snake_ddp: the stack is limited to %llu kB, and the program needs 1024: start it from a shell with a "
      "higher limit (ulimit -s 8192)\n",
      static_cast<unsigned long long>(limit.rlim_cur >> 10));
  return false;
}

// LibTorch's mathematics ends the process while it loads where there is none.
bool has_working_folder() {
  char path[PATH_MAX];
  if (::getcwd(path, sizeof path) != nullptr || errno != ENOENT) return true;
  std::fprintf(stderr, "snake_ddp: the working directory was removed: change to one that exists\n");
  return false;
}

// A preloaded LibTorch would replace the program's own, which RPATH protects only from LD_LIBRARY_PATH.
bool is_free_of_other_libtorch() {
  const char* const list = std::getenv("LD_PRELOAD");
  for (const char* entry = list; entry != nullptr && *entry != '\0';) {
    const std::size_t length = std::strcspn(entry, ": ");
    const char* name = entry;
    for (const char* c = entry; c < entry + length; ++c)
      if (*c == '/') name = c + 1;
    if (std::strncmp(name, "libtorch", 8) == 0 || std::strncmp(name, "libc10", 6) == 0) {
      std::fprintf(stderr,
                   "snake_ddp: LD_PRELOAD has another LibTorch, which would replace this program's own: "
                   "unset LD_PRELOAD\n");
      return false;
    }
    entry += length + (entry[length] != '\0');
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  snake_ddp::core::hold_run_signals();
  if (argc > 2 && std::strcmp(argv[1], "--become") == 0) return become(argv[2], argv + 2);
  if (!has_working_folder()) return 4;
  if (!has_stack() || !is_free_of_other_libtorch()) return 2;
  constexpr char kProgram[] = "/../snake_ddp";
  char path[PATH_MAX + sizeof kProgram];
  const ssize_t length = ::readlink("/proc/self/exe", path, PATH_MAX);
  path[length > 0 ? length : 0] = '\0';
  char* end = std::strrchr(path, '/');
  if (end == nullptr) {
    std::fprintf(stderr, "snake_ddp: cannot find this program's own path: %s; is /proc mounted?\n",
                 std::strerror(errno));
    return 4;
  }
  std::memcpy(end, kProgram, sizeof kProgram);
  return become(path, argv);
}
