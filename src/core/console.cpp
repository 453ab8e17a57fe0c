#include "snake_ddp/core/console.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "snake_ddp/core/descriptor.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/printable.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/core/wait.hpp"

namespace snake_ddp::core {
namespace {

constexpr std::size_t kMostWaiting = 64 * 1024;  // bytes, on top of the buffer of the pipe or terminal
constexpr std::chrono::milliseconds kFarewell{5'000}, kErrorPatience{2'000};

// Never destroyed: threads may outlive main.
std::mutex& log_mutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}
std::function<void(std::string_view)>& error_log() {
  static auto& log = *new std::function<void(std::string_view)>;
  return log;
}

std::int64_t lines_of(std::string_view text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

Abilities abilities() {
  const auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::string locale;
  for (const char* name : {"LANG", "LC_CTYPE", "LC_ALL"})  // the last one that is set counts
    if (!text(name).empty()) locale = text(name);
  for (char& c : locale) c = static_cast<char>(c | 0x20);  // capitals become small letters
  const bool escapes = !text("TERM").empty() && text("TERM") != "dumb";
  return {escapes, escapes && text("NO_COLOR").empty(),
          locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos};
}

void hold_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // The lowest free number is this one. A root without /dev has at least itself. Not for writing: a result that is
    // lost is an error.
    if (::open("/dev/null", O_RDONLY) < 0) ::open("/", O_PATH | O_DIRECTORY);
  }
  std::signal(SIGPIPE, SIG_IGN);
}

struct Console::State {
  State(int descriptor_, std::string elsewhere_)
      : descriptor(descriptor_), elsewhere(std::move(elsewhere_)), terminal(::isatty(descriptor_) == 1) {}

  const int descriptor;
  const std::string elsewhere;
  const bool terminal;
  const bool escape_codes = abilities().escapes;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> waiting;
  std::size_t bytes = 0;  // in `waiting`
  bool writing = false, closing = false, started = false;
  bool failing = false;         // the last write failed; the next line tries again
  std::string bar, drawn;       // as it should be below all lines, and as it is
  std::int64_t unreported = 0;  // lines dropped since the last note
  std::int64_t dropped = 0;     // since the beginning

  [[nodiscard]] bool idle() const { return waiting.empty() && !writing && bar == drawn; }
  [[nodiscard]] bool owes_note() const { return unreported > 0 && !failing; }
  void push(std::string text) {
    bytes += text.size();
    waiting.push_back(std::move(text));
    changed.notify_all();
  }
  void drop(std::int64_t lines) {
    unreported += lines;
    dropped += lines;
  }
  // The output that turns the drawn bar into `text`.
  std::string redrawn(const std::string& text) const {
    if (!escape_codes) {
      const bool blanks = drawn.size() > text.size();
      return "\r" + text + (blanks ? std::string(drawn.size() - text.size(), ' ') : "") +
             (blanks && text.empty() ? "\r" : "");
    }
    const std::int64_t above = lines_of(drawn);
    std::string out = above > 0 ? fmt::format("\r\x1b[{}A", above) : "\r";
    for (const char c : text) {
      if (c == '\n') out += "\x1b[K";
      out += c;
    }
    return out + (lines_of(text) < above ? "\x1b[K\x1b[J" : "\x1b[K");
  }
  std::string note() const {
    return fmt::format("{} {} dropped{}\n", counted(unreported, "console line"),
                       unreported == 1 ? "was" : "were", elsewhere);
  }
  void write();
  static void start(const std::shared_ptr<State>& state);
};

// Runs in the thread. Once lines were dropped, no new ones are accepted until the queue and the note are written: so
// the note is where the lines are missing.
void Console::State::write() {
  std::unique_lock lock(mutex);
  for (;;) {
    wait_until(changed, lock, [this] { return closing || !waiting.empty() || owes_note() || bar != drawn; });
    const bool bar_only = waiting.empty() && !owes_note();
    if (bar_only && bar == drawn) return;
    std::string text;
    if (!waiting.empty()) {
      text = std::move(waiting.front());
      waiting.pop_front();
      bytes -= text.size();
    }
    const std::int64_t lines = lines_of(text);
    const std::int64_t reported = !bar_only && (failing || waiting.empty()) ? unreported : 0;
    if (reported > 0) text = failing ? note() + text : text + note();
    if (bar_only)
      text = redrawn(bar);
    else if (!drawn.empty())
      text = redrawn("") + text;
    drawn = bar_only ? bar : "";
    writing = true;
    lock.unlock();
    const int error = write_all(descriptor, text);
    lock.lock();
    writing = false;
    failing = error != 0;
    if (failing)
      drop(lines);
    else
      unreported -= reported;
    changed.notify_all();
  }
}

Console::Console(int descriptor, std::string elsewhere)
    : state_(std::make_shared<State>(descriptor, std::move(elsewhere))) {}

Console::~Console() {
  clear_bar();
  drain(Deadline::in(kFarewell));
  const std::lock_guard guard(state_->mutex);
  state_->closing = true;
  state_->changed.notify_all();
}

bool Console::terminal() const { return state_->terminal; }

// Under the mutex.
void Console::State::start(const std::shared_ptr<State>& state) {
  if (state->started) return;
  // The other threads handle these: a launcher's main thread waits for them.
  sigset_t others, before;
  sigemptyset(&others);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}) sigaddset(&others, number);
  ::pthread_sigmask(SIG_BLOCK, &others, &before);
  try {
    std::thread([state] { state->write(); }).detach();
    state->started = true;
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Console::line(std::string_view text) {
  const std::lock_guard guard(state_->mutex);
  State& s = *state_;
  State::start(state_);
  std::string whole = printable_line(text) + '\n';
  if (s.owes_note() || (s.bytes > 0 && s.bytes + whole.size() > kMostWaiting)) {
    s.drop(lines_of(whole));
    return;
  }
  s.push(std::move(whole));
}

Console::Size Console::size() const {
  winsize size{};
  if (::ioctl(state_->descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

void Console::bar(std::string_view text) {
  const std::lock_guard guard(state_->mutex);
  if (!state_->terminal || (!state_->started && text.empty())) return;
  State::start(state_);
  state_->bar = printable(text);
  state_->changed.notify_all();
}

void Console::clear_bar() { bar(""); }

bool Console::drain(Deadline deadline) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, deadline.left(),
                                  [this] { return state_->idle() && !state_->owes_note(); });
}

std::int64_t Console::dropped() const {
  const std::lock_guard guard(state_->mutex);
  return state_->dropped;
}

void also_tell(std::function<void(std::string_view)> log) {
  const std::lock_guard guard(log_mutex());
  error_log() = std::move(log);
}

void tell_error(std::string_view line) noexcept {
  try {
    const std::lock_guard guard(log_mutex());
    if (error_log()) error_log()(line);
  } catch (const std::exception&) {  // the line is on stderr
  }
  static std::atomic<bool> given_up{false};
  try {
    static Console& errors = *new Console(STDERR_FILENO);  // never destroyed: its thread may outlive main
    errors.line(line);
    if (!given_up && !errors.drain(Deadline::in(kErrorPatience))) given_up = true;
  } catch (const std::exception&) {  // no thread: a write that may block is better than a lost message
    write_all(STDERR_FILENO, printable_line(line) + '\n', kErrorPatience);
  }
}

void print_result(std::string_view text) { draw(printable(text)); }

void draw(std::string_view text) {
  static std::atomic<bool> reader_gone{false};
  if (reader_gone) return;
  const int error = write_all(STDOUT_FILENO, text);
  if (error == EPIPE)
    reader_gone = true;
  else if (error != 0)
    throw FileError(fmt::format("cannot write the result to stdout: {}", std::strerror(error)));
}

}  // namespace snake_ddp::core
