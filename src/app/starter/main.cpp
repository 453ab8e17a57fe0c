// ./snake_ddp itself: holds the signals of a run and becomes the program beside this folder, which needs a second to
// load its libraries and cannot handle signals before. Links only the C library, so that it starts at once. `--become
// PROGRAM ARGUMENTS`, for the scripts in launch/: the same with another program.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "snake_ddp/base/run_signals.hpp"

namespace {

int become(const char* program, char** argv) {
  ::execvp(program, argv);
  std::fprintf(stderr, "snake_ddp: cannot start %s: %s; build it with ./train_ddp.sh --help\n", program,
               std::strerror(errno));
  return 4;
}

}  // namespace

int main(int argc, char** argv) {
  snake_ddp::base::hold_run_signals();
  if (argc > 2 && std::strcmp(argv[1], "--become") == 0) return become(argv[2], argv + 2);
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
