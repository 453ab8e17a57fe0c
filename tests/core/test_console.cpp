#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/descriptor.hpp"
#include "snake_ddp/core/printable.hpp"
#include "snake_ddp/core/text.hpp"

namespace {

using namespace snake_ddp;
using namespace std::chrono_literals;

struct Pipe {
  Pipe() {
    REQUIRE(pipe(ends.data()) == 0);
    REQUIRE(fcntl(ends[1], F_SETPIPE_SZ, 4096) > 0);
  }
  ~Pipe() {
    close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
  }
  // Everything until the last writer is gone.
  std::vector<std::string> rest_of_lines() {
    close(std::exchange(ends[1], -1));
    std::string text;
    std::array<char, 4096> piece;
    for (ssize_t n = 0; (n = read(ends[0], piece.data(), piece.size())) > 0;)
      text.append(piece.data(), static_cast<std::size_t>(n));
    std::vector<std::string> lines;
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      lines.push_back(text.substr(at, end - at));
    return lines;
  }
  std::array<int, 2> ends{};
};

}  // namespace

TEST_CASE("unread lines are dropped, and their number is reported when the reader continues", "[unit]") {
  constexpr std::int64_t kLines = 5000;
  Pipe pipe;
  std::vector<std::string> got;
  std::int64_t dropped = 0;
  {
    core::Console console(pipe.ends[1], "; all are in the log");
    for (std::int64_t i = 0; i < kLines; ++i) console.line(fmt::format("line {:0100}", i));
    CHECK_FALSE(console.drain(core::Deadline::in(50ms)));
    dropped = console.dropped();
    std::thread reader([&] {
      std::string text;
      for (char c = 0; text.find("line after") == std::string::npos || c != '\n'; text += c)
        if (read(pipe.ends[0], &c, 1) != 1) break;
      for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
        got.push_back(text.substr(at, end - at));
    });
    CHECK(console.drain(core::Deadline::in(60s)));
    console.line("line after");
    reader.join();
  }
  REQUIRE(dropped > 0);
  REQUIRE(got.size() == static_cast<std::size_t>(kLines - dropped) + 2);
  for (std::int64_t i = 0; i < kLines - dropped; ++i)
    REQUIRE(got[static_cast<std::size_t>(i)] == fmt::format("line {:0100}", i));
  CHECK(got[got.size() - 2] == fmt::format("{} console lines were dropped; all are in the log", dropped));
  CHECK(got.back() == "line after");
}

TEST_CASE("a descriptor that cannot be written is no error, and one that can be again says what it missed",
          "[unit]") {
  std::signal(SIGPIPE, SIG_IGN);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  Pipe pipe;
  const int place = dup(full);
  {
    core::Console console(place);
    console.line("one");
    console.line("two\nthree");
    CHECK(console.drain(core::Deadline::in(60s)));
    CHECK(console.dropped() == 3);
    REQUIRE(dup2(pipe.ends[1], place) == place);
    console.line("four");
    CHECK(console.drain(core::Deadline::in(60s)));
    REQUIRE(dup2(full, place) == place);
  }
  CHECK(pipe.rest_of_lines() == std::vector<std::string>{"3 console lines were dropped", "four"});
  close(place);
  close(full);
}

TEST_CASE("a write to a pipe that nobody reads ends", "[unit]") {
  const Pipe pipe;
  REQUIRE(fcntl(pipe.ends[1], F_SETFL, O_NONBLOCK) == 0);
  CHECK(core::write_all(pipe.ends[1], std::string(4096, 'x'), 20ms) == 0);
  CHECK(core::write_all(pipe.ends[1], "x", 20ms) == ETIMEDOUT);
}

TEST_CASE("text is UTF-8, or its other bytes are shown as numbers", "[unit]") {
  for (const char* good :
       {"", "plain", "caf\xc3\xa9", "\xe8\x9b\x87", "\xf0\x9f\x90\x8d", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    CHECK(core::is_utf8(good));
    CHECK(core::as_utf8(good) == good);
  }
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"caf\xe9", "caf\\xe9"},
      {"\xc3", "\\xc3"},                             // cut short
      {"\x80z", "\\x80z"},                           // begins in the middle
      {"\xc0\xaf", "\\xc0\\xaf"},                    // longer than necessary
      {"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},           // so is this
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // a surrogate
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // beyond the last character
      {"\xff\xc3\xa9", "\\xff\xc3\xa9"}};
  for (const auto& [text, shown] : bad) {
    CHECK_FALSE(core::is_utf8(text));
    CHECK(core::as_utf8(text) == shown);
  }
}

TEST_CASE("what is shown controls no terminal, and JSON stays JSON", "[unit]") {
  const std::string hostile =
      "\x1b]0;a\x07\x1b[31m\r\x7f\xc2\x9b\xe2\x80\xae\xff\n2026 b\n\tc\n\nd \xe8\x9b\x87";
  const std::string hidden = "\\x1b]0;a\\x07\\x1b[31m\\x0d\\u007f\\u009b\\u202e\\xff";
  CHECK(core::printable(hostile) == hidden + "\n2026 b\n\tc\n\nd \xe8\x9b\x87");
  CHECK(core::printable_line(hostile) == hidden + "\n  2026 b\n\tc\n\n  d \xe8\x9b\x87");
  CHECK(core::as_plain(hostile) == hidden + "\\x0a2026 b\\x0a\\x09c\\x0a\\x0ad \xe8\x9b\x87");
  CHECK(core::printable("{\"a\": \"\\u001b\"}\n") == "{\"a\": \"\\u001b\"}\n");
}

TEST_CASE("lines and bars of a console are shown so", "[unit]") {
  const Pipe pipe;
  core::Console(pipe.ends[1]).line("a\x1b[31m\nSaved");
  char text[100];
  const ssize_t bytes = read(pipe.ends[0], text, sizeof text);
  CHECK(std::string(text, bytes < 0 ? 0 : static_cast<std::size_t>(bytes)) == "a\\x1b[31m\n  Saved\n");
}
