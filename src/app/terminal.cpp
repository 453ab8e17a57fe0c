#include "app/terminal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <limits>
#include <utility>
#include <vector>

#include "snake_ddp/core/error.hpp"
#include "train/live_view.hpp"

namespace snake_ddp::app {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[2J";  // alternate screen, no cursor
constexpr std::string_view kLeave = "\x1b[0m\x1b[?25h\x1b[?1049l";
constexpr std::array kEnding = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// A signal handler has no object.
termios g_before{};
int g_output = -1;  // opened separately and non-blocking: other processes share descriptor 1
bool g_escapes = false;
std::atomic<bool> g_stop{false};

void give_back() {
  if (g_escapes) (void)!::write(g_output, kLeave.data(), kLeave.size());
  ::tcflush(STDIN_FILENO, TCIFLUSH);  // late keys must not reach the shell
  ::tcsetattr(STDIN_FILENO, TCSANOW, &g_before);
}

extern "C" void on_end(int signal) {
  if (!g_stop.exchange(true)) return;
  give_back();
  _exit(128 + signal);
}

struct KeyName {
  std::string_view sent;
  Key key;
};
constexpr std::array kKeys = {
    KeyName{"\x1b[A", Key::kUp},    KeyName{"\x1b[B", Key::kDown},  KeyName{"\x1b[D", Key::kLeft},
    KeyName{"\x1b[C", Key::kRight}, KeyName{"\x1bOA", Key::kUp},    KeyName{"\x1bOB", Key::kDown},
    KeyName{"\x1bOD", Key::kLeft},  KeyName{"\x1bOC", Key::kRight}, KeyName{"w", Key::kUp},
    KeyName{"s", Key::kDown},       KeyName{"a", Key::kLeft},       KeyName{"d", Key::kRight},
    KeyName{"k", Key::kUp},         KeyName{"j", Key::kDown},       KeyName{"h", Key::kLeft},
    KeyName{"l", Key::kRight},      KeyName{" ", Key::kPause},      KeyName{"q", Key::kQuit},
};

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Columns and rows that a frame takes up, without its escape sequences.
std::pair<int, int> needed_size(std::string_view frame) {
  int columns = 0, rows = 1, column = 0;
  for (std::size_t i = 0; i < frame.size(); ++i) {
    if (frame[i] == '\n') {
      ++rows, column = 0;
    } else if (frame[i] == '\x1b') {
      while (i + 1 < frame.size() && std::isalpha(static_cast<unsigned char>(frame[i])) == 0) ++i;
    } else if ((frame[i] & 0xc0) != 0x80) {  // all our characters are one column wide
      columns = std::max(columns, ++column);
    }
  }
  return {columns, rows};
}

// Takes the first complete key off the terminal's input: arrows, WASD, hjkl, space, q. Other bytes are dropped; the
// beginning of an arrow's sequence stays.
std::optional<Key> take_key(std::string& sent) {
  for (; !sent.empty(); sent.erase(0, 1)) {
    const bool escape = sent[0] == '\x1b';
    const std::string text = escape ? sent : std::string(1, small(sent[0]));
    const auto known =
        std::find_if(kKeys.begin(), kKeys.end(), [&](const KeyName& k) { return text.starts_with(k.sent); });
    if (known != kKeys.end()) {
      sent.erase(0, known->sent.size());
      return known->key;
    }
    if (escape && (sent == "\x1b" || sent == "\x1b[" || sent == "\x1bO")) return {};  // more may come
  }
  return {};
}

}  // namespace

Terminal::Terminal(const core::Abilities& abilities) : abilities_(abilities) {
  for (const auto& [descriptor, name] :
       {std::pair{STDIN_FILENO, "input"}, std::pair{STDOUT_FILENO, "output"}}) {
    if (::isatty(descriptor) == 0)
      throw core::UsageError(std::string("play needs a terminal, with keys and a screen; standard ") + name +
                             " is not one");
  }
  // ttyname's path may be another container's terminal.
  g_output = ::open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (g_output < 0 || ::tcgetattr(STDIN_FILENO, &g_before) != 0) {
    if (g_output >= 0) ::close(g_output);
    throw core::UsageError("play cannot use this terminal for keys and a screen; try another one");
  }
  g_escapes = abilities_.escapes;
  struct sigaction action {};
  action.sa_handler = on_end;  // without SA_RESTART: a signal ends waits
  for (const int signal : kEnding) sigaction(signal, &action, nullptr);
  termios raw = g_before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON);  // Ctrl-S would stop the game for good
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // Ctrl-Z would leave the shell with the terminal in this mode
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  if (abilities_.escapes) write(kEnter);
}

Terminal::~Terminal() {
  give_back();
  ::close(g_output);
}

std::optional<Key> Terminal::key(core::Deadline deadline) {
  for (;;) {
    if (g_stop) return Key::kQuit;
    if (const auto known = take_key(sent_)) return known;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const int ready =
        ::poll(&input, 1, static_cast<int>(std::min<std::int64_t>(deadline.left().count(), 200)));
    if (ready < 0 && errno != EINTR) return Key::kQuit;
    if (ready > 0) {
      std::array<char, 256> text;
      const ssize_t size = ::read(STDIN_FILENO, text.data(), text.size());
      if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN)) return Key::kQuit;
      if (size > 0) sent_.append(text.data(), static_cast<std::size_t>(size));
    } else if (deadline.passed()) {
      return g_stop ? std::optional(Key::kQuit) : std::nullopt;
    }
  }
}

Terminal::Size Terminal::size() {
  constexpr int kUnknown = std::numeric_limits<int>::max();  // taken for large enough
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return {kUnknown, kUnknown};
  return {size.ws_col, size.ws_row};
}

bool Terminal::resized() const { return size() != shown_on_; }

bool Terminal::show(std::string_view frame) {
  shown_on_ = size();
  if (!abilities_.escapes) {
    write(std::string(frame) + "\n");
    return true;
  }
  const auto [columns, rows] = needed_size(frame);
  const bool fits = columns <= shown_on_.columns && rows <= shown_on_.rows;
  const std::string other =
      fmt::format("Enlarge the terminal:\n{} x {} is too small,\n{} x {} is enough.\nq ends",
                  shown_on_.columns, shown_on_.rows, columns, rows);
  std::string text = "\x1b[H";
  for (const char c : fits ? frame : std::string_view(other))
    text += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
  write(text + "\x1b[K\x1b[J");
  return fits;
}

void Terminal::write(std::string_view text) {
  const core::Deadline deadline = core::Deadline::in(std::chrono::seconds(1));
  while (!text.empty() && !deadline.passed() && !g_stop) {
    const ssize_t size = ::write(g_output, text.data(), text.size());
    if (size > 0) {
      text.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {
      pollfd output{g_output, POLLOUT, 0};
      ::poll(&output, 1, static_cast<int>(deadline.left().count()));
    } else if (errno != EINTR) {
      return;  // the terminal is gone, which its input reports too
    }
  }
}

Progress::Progress(std::string what, bool shown) : what_(std::move(what)), console_(STDERR_FILENO) {
  if (!shown || !console_.terminal()) return;
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::seconds(1), [this] { return ended_; })) draw(share_);
  });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();  // then the console clears the bar, before results are printed
}

void Progress::show(double share) {
  if (!thread_.joinable()) return;
  const std::lock_guard guard(mutex_);
  share_ = std::clamp(share, 0.0, 1.0);
}

void Progress::draw(double share) {
  const double passed = std::chrono::duration<double>(Clock::now() - begin_).count();
  std::vector<std::string> pieces;
  if (share > 0) pieces.push_back(train::clock_text(passed * (1 - share) / share) + " left");
  pieces.push_back(train::clock_text(passed) + " so far");
  console_.bar(train::bar_line(what_, share, pieces, console_.size().columns));
}

}  // namespace snake_ddp::app
