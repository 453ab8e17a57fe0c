#include "dist/watchdog.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/deadline.hpp"

namespace snake_ddp::dist {
namespace {

using namespace std::chrono_literals;

constexpr int kFrames = 48;
constexpr std::size_t kThreads = 256;
constexpr auto kPatience = 1s;  // for all threads together

// The result of a thread's signal handler; `depth` is set once the frames are complete.
struct Answer {
  std::array<void*, kFrames> frames;
  std::atomic<int> depth;
};
std::array<Answer, kThreads> g_answers;

int stack_signal() { return SIGRTMIN + 7; }

// Runs in a thread interrupted at any point, so it only walks the stack. The asking thread looks up the names.
void on_stack_signal(int, siginfo_t* info, void*) {
  const int error = errno;
  const auto place = static_cast<std::size_t>(info->si_value.sival_int);
  if (info->si_code == SI_QUEUE && info->si_pid == ::getpid() && place < kThreads) {
    Answer& answer = g_answers[place];
    const int depth = ::backtrace(answer.frames.data(), kFrames);
    answer.depth.store(depth, std::memory_order_release);
  }
  errno = error;
}

bool ask(int thread, std::size_t place) {
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_int = static_cast<int>(place);
  return ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread, stack_signal(), &info) == 0;
}

std::string name_of(int thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// "c10d::ProcessGroupGloo::AsyncWork::wait(...) in libtorch_cpu.so"
std::string describe(void* frame) {
  Dl_info at{};
  // A return address is behind the call instruction, which may be the next function's first address.
  if (::dladdr(static_cast<char*>(frame) - 1, &at) == 0) return fmt::format("{}", frame);
  const std::string_view path = at.dli_fname != nullptr ? at.dli_fname : "";
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (at.dli_sname == nullptr) {
    const auto offset = static_cast<char*>(frame) - static_cast<char*>(at.dli_fbase);
    return fmt::format("{}+{:#x}", file, offset);
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(at.dli_sname, nullptr, nullptr, &status), &std::free);
  return fmt::format("{:.160} in {}", status == 0 ? readable.get() : at.dli_sname, file);
}

std::string text_of(int thread, const Answer& answer) {
  const int depth = answer.depth.load(std::memory_order_acquire);
  std::string text = fmt::format("thread {} ({}):{}", thread, name_of(thread),
                                 depth > 0 ? "" : " does not answer: it is in the kernel or blocks signals");
  for (int i = 0; i < depth; ++i)
    text += fmt::format("\n  {}", describe(answer.frames[static_cast<std::size_t>(i)]));
  return text;
}

}  // namespace

void prepare_stacks() {
  // The first call loads a library, which a signal handler must not do.
  std::array<void*, 1> frame;
  ::backtrace(frame.data(), 1);
  struct sigaction action {};
  action.sa_sigaction = on_stack_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  ::sigaction(stack_signal(), &action, nullptr);
}

void print_stacks() {
  std::vector<int> asked;
  std::error_code none;
  std::filesystem::directory_iterator task("/proc/self/task", none);
  for (; !none && task != std::filesystem::directory_iterator(); task.increment(none)) {
    if (asked.size() == kThreads) break;
    const int thread = std::atoi(task->path().filename().c_str());
    g_answers[asked.size()].depth = 0;
    if (ask(thread, asked.size())) asked.push_back(thread);  // else it has just ended
  }
  const core::Deadline deadline = core::Deadline::in(kPatience);
  for (std::size_t i = 0; i < asked.size(); ++i)
    while (g_answers[i].depth.load(std::memory_order_acquire) == 0 && !deadline.passed())
      std::this_thread::sleep_for(5ms);
  for (std::size_t i = 0; i < asked.size(); ++i) core::tell_error(text_of(asked[i], g_answers[i]));
}

}  // namespace snake_ddp::dist
