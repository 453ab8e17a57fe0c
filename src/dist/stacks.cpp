#include "snake_ddp/dist/stacks.hpp"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace snake_ddp::dist {
namespace {

constexpr int kFrames = 48;
std::atomic<int> g_answered{0};

int stack_signal() { return SIGRTMIN + 7; }

void on_stack_signal(int) {
  const int error = errno;
  std::array<void*, kFrames> frames;
  const int depth = ::backtrace(frames.data(), kFrames);
  ::backtrace_symbols_fd(frames.data(), depth, STDERR_FILENO);
  g_answered.fetch_add(1);
  errno = error;
}

std::string name_of(const std::filesystem::path& task) {
  std::ifstream file(task / "comm");
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

void prepare_stacks() {
  // The first call loads a library, which a signal handler must not do.
  std::array<void*, 1> frame;
  ::backtrace(frame.data(), 1);
  struct sigaction action {};
  action.sa_handler = on_stack_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(stack_signal(), &action, nullptr);
}

void print_stacks() {
  std::error_code none;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", none)) {
    const int thread = std::atoi(task.path().filename().c_str());
    if (thread == ::gettid()) continue;
    std::fprintf(stderr, "thread %d (%s):\n", thread, name_of(task.path()).c_str());
    std::fflush(stderr);
    const int before = g_answered.load();
    if (::syscall(SYS_tgkill, ::getpid(), thread, stack_signal()) != 0) continue;  // it has just ended
    for (int i = 0; i < 50 && g_answered.load() == before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace snake_ddp::dist
