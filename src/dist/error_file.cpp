#include "dist/error_file.hpp"

#include <c10/util/Exception.h>
#include <cxxabi.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <string_view>
#include <typeinfo>

#include "dist/world.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::dist {
namespace {

// torchrun reads the file as UTF-8 and crashes on anything else, so every byte that is not plain ASCII is escaped.
std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (byte < 0x20 || byte >= 0x7f)
      out += fmt::format("\\u{:04x}", byte);
    else
      out += c;
  }
  return out + '"';
}

// What the handler of a fatal signal needs, prepared in advance: it may neither allocate nor format.
constexpr std::array kFatalSignals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
constexpr int kSignalLimit = 32;
char fatal_path[4096], log_path[4096];
char fatal_line[kSignalLimit][96];
char fatal_document[kSignalLimit][128];
alignas(16) char fatal_stack[64 * 1024];

void on_fatal_signal(int signal_number) {
  if (signal_number > 0 && signal_number < kSignalLimit) write_last_words(fatal_line[signal_number]);
  if (fatal_path[0] != '\0' && signal_number > 0 && signal_number < kSignalLimit) {
    const int fd = ::open(fatal_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd >= 0) {
      timespec now{};
      ::clock_gettime(CLOCK_REALTIME, &now);
      char line[192];
      char digits[24];
      std::size_t first = sizeof digits;
      digits[--first] = '\n';
      digits[--first] = '}';
      for (long t = now.tv_sec; t > 0; t /= 10) digits[--first] = static_cast<char>('0' + t % 10);
      const std::size_t head = std::strlen(fatal_document[signal_number]);
      std::memcpy(line, fatal_document[signal_number], head);
      std::memcpy(line + head, digits + first, sizeof digits - first);
      [[maybe_unused]] const ssize_t written = ::write(fd, line, head + sizeof digits - first);
      ::close(fd);
    }
  }
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

bool is_of_gloo(const std::type_info& type) {
  int status = 0;
  char* name = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  const bool gloo = status == 0 && std::string_view(name).starts_with("gloo::");
  std::free(name);
  return gloo;
}

struct LastWords {
  std::string text;
  int exit_code;
};

LastWords last_words() {
  const std::exception_ptr current = std::current_exception();
  if (!current) return {"std::terminate without an exception", core::kExitBug};
  try {
    std::rethrow_exception(current);
  } catch (const core::Error& error) {
    return {error.what(), error.exit_code()};
  } catch (const c10::DistError& error) {
    return {error.what_without_backtrace(), core::kExitDist};
  } catch (const c10::Error& error) {
    return {error.what_without_backtrace(), core::kExitBug};
  } catch (const std::exception& error) {
    return {error.what(), is_of_gloo(typeid(error)) ? core::kExitDist : core::kExitBug};
  } catch (...) {
    return {"an exception not derived from std::exception", core::kExitBug};
  }
}

[[noreturn]] void on_terminate() {
  const auto [text, code] = last_words();
  const std::string rank = this_rank();
  const std::string message = fmt::format("{}{}ended by an exception outside the main program: {}", rank,
                                          rank.empty() ? "" : ": ", text);
  write_error_file(message, code);
  core::tell_error(message);
  if (code == core::kExitBug) std::abort();  // a core dump is worth having
  ::_exit(code);                             // other threads may hang in the dead group
}

}  // namespace

bool write_error_file(const std::string& message, int exit_code, bool peer_only) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return false;
  // torchrun calls the smallest time stamp, in whole seconds, the root cause.
  const std::time_t stamp = std::time(nullptr) + (peer_only ? 5 : 0);
  const std::string document = fmt::format(
      R"({{"message": {{"message": {}, "errorCode": {}, "extraInfo": {{"py_callstack": {}, "timestamp": "{}"}}}}}})"
      "\n",
      json_string(std::string_view(message).substr(0, message.find('\n'))), exit_code, json_string(message),
      stamp);
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  ::unlink(temporary.c_str());  // of a process that ended here; a stranger's link is not followed
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  const bool whole = ::write(fd, document.data(), document.size()) == static_cast<ssize_t>(document.size());
  ::close(fd);
  const bool linked =
      whole && ::link(temporary.c_str(), path) == 0;  // fails if the file exists: the first error stays
  ::unlink(temporary.c_str());
  return linked;
}

void keep_last_words(const std::string& path) {
  if (path.size() < sizeof log_path) std::memcpy(log_path, path.c_str(), path.size() + 1);
}

void write_last_words(const char* line) {
  if (log_path[0] == '\0') return;
  const int fd = ::open(log_path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(fd, line, std::strlen(line));
  ::close(fd);
}

void install_failure_handlers() {
  if (const char* path = std::getenv("TORCHELASTIC_ERROR_FILE"))
    std::strncpy(fatal_path, path, sizeof fatal_path - 1);
  // A stack of its own, so that a stack overflow is reported too.
  stack_t stack{};
  stack.ss_sp = fatal_stack;
  stack.ss_size = sizeof fatal_stack;
  ::sigaltstack(&stack, nullptr);
  for (const int number : kFatalSignals) {
    std::snprintf(fatal_document[number], sizeof fatal_document[number],
                  "{\"message\": \"fatal signal %d (%s)\", \"timestamp\": ", number, ::strsignal(number));
    std::snprintf(fatal_line[number], sizeof fatal_line[number], "Ended by signal %d (%s)\n", number,
                  ::strsignal(number));
    struct sigaction action {};
    action.sa_handler = on_fatal_signal;
    action.sa_flags = SA_ONSTACK;
    ::sigaction(number, &action, nullptr);
  }
  std::set_terminate(on_terminate);
}

}  // namespace snake_ddp::dist
