// Complete files, logs, and the messages for system errors.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "io/atomic_file.hpp"
#include "io/file_error.hpp"
#include "io/folders.hpp"
#include "io/log_file.hpp"
#include "io/sealed_file.hpp"
#include "refusals.hpp"
#include "snake_ddp/core/error.hpp"
#include "temporary_folder.hpp"

namespace snake_ddp::io {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a file is read back as it was written, zero bytes included", "[unit]") {
  const TemporaryFolder folder;
  const std::string bytes("a\0b\n\xff", 5);
  io::write_file_atomically(folder / "x", bytes);
  CHECK(io::read_file(folder / "x") == bytes);
  io::write_file_atomically(folder / "x", "");
  CHECK(io::read_file(folder / "x").empty());
  CHECK(folder.entries() == 1);
}

TEST_CASE("a file without a size is read to its end", "[unit]") {
  CHECK_THAT(io::read_file("/proc/self/status"), Contains("Name:"));
  CHECK_THROWS_WITH(io::read_file("/dev/zero"), Contains("no file of this kind") && !Contains("ulimit"));
}

TEST_CASE("a full disk leaves the old file and no temporary one", "[unit]") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "x", "old");
  {
    const FileSizeLimit limit(4096);
    CHECK_THAT(
        file_error_of([&] { io::write_file_atomically(folder / "x", std::string(10'000, 'n')); }),
        Contains("cannot write '" + folder / "x") && Contains("File too large") && Contains("ulimit -f"));
  }
  CHECK(io::read_file(folder / "x") == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a read-only folder keeps its old file and the message says what to do", "[unit]") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "x", "old");
  std::string message;
  {
    const ReadOnly read_only(folder.path());
    message = file_error_of([&] { io::write_file_atomically(folder / "x", "new"); });
  }
  CHECK_THAT(message, Contains("Permission denied") && Contains("choose another folder"));
  CHECK(io::read_file(folder / "x") == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a missing folder, a file for a folder, and a folder for a file are refused", "[unit]") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "x", "plain");
  CHECK_THAT(file_error_of([&] { io::write_file_atomically(folder / "none/x", ""); }),
             Contains("No such file"));
  CHECK_THAT(file_error_of([&] { io::write_file_atomically(folder / "x/y", ""); }),
             Contains("Not a directory"));
  std::filesystem::create_directory(folder / "d");
  CHECK_THAT(file_error_of([&] { io::write_file_atomically(folder / "d", ""); }), Contains("Is a directory"));
  CHECK_THAT(file_error_of([&] { io::write_file_atomically(folder / "d/", ""); }),
             Contains("Is a directory"));
  CHECK_THAT(file_error_of([&] { io::read_file(folder / "d"); }), Contains("Is a directory"));
  CHECK_THAT(file_error_of([&] { io::read_file(folder / "none"); }),
             Contains("cannot read") && Contains("No such file"));
  CHECK(folder.entries() == 2);
}

TEST_CASE("a check whether a file could be written leaves nothing behind", "[unit]") {
  const TemporaryFolder folder;
  io::check_output(folder / "x");
  CHECK(folder.entries() == 0);
  CHECK_THAT(file_error_of([&] { io::check_output(folder / "none/x"); }), Contains("No such file"));
  CHECK_THAT(file_error_of([&] { io::check_output(folder.path()); }), Contains("Is a directory"));
}

TEST_CASE("a link stays a link, and the file behind it is written", "[unit]") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "d");
  io::write_file_atomically(folder / "d/x", "old");
  std::filesystem::create_symlink("d/x", folder / "link");
  io::write_output(folder / "link", "new");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(io::read_file(folder / "d/x") == "new");
  std::filesystem::create_symlink("d/none", folder / "dangling");
  io::write_output(folder / "dangling", "first");
  CHECK(io::read_file(folder / "d/none") == "first");
}

TEST_CASE("a link in a folder of ours is replaced, and what it leads to stays", "[unit]") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "victim", "precious");
  for (const char* name : {"atomic", "created", "dangling"})
    std::filesystem::create_symlink(std::strcmp(name, "dangling") == 0 ? "none" : "victim", folder / name);
  io::write_file_atomically(folder / "atomic", "new");
  io::write_file_atomically(folder / "dangling", "new");
  io::write_sealed(folder / "created", "new");
  for (const char* name : {"atomic", "created", "dangling"}) {
    CHECK(!std::filesystem::is_symlink(folder / name));
    CHECK(io::read_file(folder / name) == "new");
  }
  CHECK(io::read_file(folder / "victim") == "precious");
  CHECK(!io::is_there(folder / "none"));
}

TEST_CASE("what is appended to, and a folder of ours, is no link, pipe or device", "[unit]") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "victim", "precious");
  std::filesystem::create_symlink("victim", folder / "link");
  std::filesystem::create_symlink("none", folder / "dangling");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const char* name : {"link", "dangling"})
    CHECK_THAT(file_error_of([&] { io::LogFile(folder / name); }), Contains("it is a link"));
  const int end = ::open((folder / "pipe").c_str(), O_RDWR);  // without a reader it cannot be opened at all
  CHECK_THAT(file_error_of([&] { io::LogFile(folder / "pipe"); }), Contains("a device or a pipe"));
  ::close(end);
  CHECK_THAT(file_error_of([&] { io::LogFile(folder / "pipe"); }), Contains("cannot open"));
  CHECK_THAT(file_error_of([&] { io::LogFile("/dev/null"); }), Contains("a device or a pipe"));
  CHECK_THAT(file_error_of([&] { io::LogFile(folder.path()); }), Contains("Is a directory"));
  std::filesystem::create_directory_symlink(folder.path(), folder / "elsewhere");
  CHECK_THAT(file_error_of([&] { io::make_own_folder(folder / "elsewhere"); }), Contains("it is a link"));
  CHECK_THAT(file_error_of([&] { io::make_own_folder(folder / "victim"); }), Contains("Not a directory"));
  CHECK(io::read_file(folder / "victim") == "precious");
  CHECK(!io::is_there(folder / "none"));
}

TEST_CASE("an output that cannot be written after all is kept elsewhere", "[unit]") {
  const TemporaryFolder folder;
  const std::string message = file_error_of([&] { io::write_output(folder / "none/x", "hours of work"); });
  CHECK_THAT(message, Contains("none/x': No such file"));
  const std::string sign = "What it was to hold is in ";
  REQUIRE_THAT(message, Contains(sign));
  const std::string kept = message.substr(message.find(sign) + sign.size());
  CHECK(io::read_file(kept) == "hours of work");
  std::filesystem::remove(kept);
}

TEST_CASE("a path that cannot be looked at is an error, one that is missing is not", "[unit]") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder / "loop");
  io::write_file_atomically(folder / "x", "");
  CHECK(io::is_there(folder / "x"));
  CHECK(io::is_folder(folder.path()));
  CHECK(!io::is_folder(folder / "x"));
  for (const char* name : {"none", "x/y"}) {
    CHECK(!io::is_there(folder / name));
    CHECK(!io::is_folder(folder / name));
  }
  for (const std::string& name : {folder / "loop", folder / std::string(300, 'a')}) {
    CHECK_THAT(file_error_of([&] { io::is_there(name); }), Contains("cannot look at"));
    CHECK_THAT(file_error_of([&] { io::is_folder(name); }), Contains("Check the path"));
    CHECK_THAT(file_error_of([&] { io::names_in(name); }), Contains("cannot list"));
  }
  CHECK(io::names_in(folder / "none").empty());
  CHECK(io::names_in(folder.path()) == std::vector<std::string>{"loop", "x"});
}

TEST_CASE("a file beyond all that is read at once is refused before it is read", "[unit]") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "x", "");
  std::filesystem::resize_file(folder / "x", std::uintmax_t{1} << 40U);  // takes no room
  CHECK_THAT(file_error_of([&] { io::read_file(folder / "x"); }),
             Contains("has 1099511627776 bytes") && Contains("Check the path"));
}

TEST_CASE("a pipe is not replaced, and is read as long as something comes", "[unit]") {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(file_error_of([&] { io::write_output(pipe, "x"); }), Contains("a device or a pipe"));
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(io::read_file(pipe).empty());  // nobody writes to it
  const int end = ::open(pipe.c_str(), O_RDWR);
  REQUIRE(end >= 0);
  std::thread writer([end] {
    for (const char* part : {"one ", "two"}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      CHECK_NOTHROW([&] {
        if (::write(end, part, std::strlen(part)) < 0) throw std::runtime_error("no write");
      }());
    }
    ::close(end);
  });
  const std::string text = io::read_file(pipe);
  writer.join();
  CHECK(text == "one two");
}

TEST_CASE("readers see a complete file while others write", "[unit]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  io::write_file_atomically(path, std::string(50'000, 'a'));
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (const char letter : {'a', 'b', 'c'}) {
    writers.emplace_back([&, letter] {
      while (!stop) io::write_file_atomically(path, std::string(50'000, letter));
    });
  }
  std::size_t torn = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string bytes = io::read_file(path);
    torn += bytes != std::string(50'000, bytes.at(0));
  }
  stop = true;
  for (auto& writer : writers) writer.join();
  CHECK(torn == 0);
  CHECK(folder.entries() == 1);
}

TEST_CASE("JSON is indented, ends its line, and survives a name that is not UTF-8", "[unit]") {
  const TemporaryFolder folder;
  io::write_json(folder / "x.json", {{"host", "h\xff"}, {"steps", 3}});
  CHECK(io::read_file(folder / "x.json") == "{\n  \"host\": \"h\xef\xbf\xbd\",\n  \"steps\": 3\n}\n");
}

TEST_CASE("a log keeps its earlier lines and starts each with the time", "[unit]") {
  const TemporaryFolder folder;
  io::LogFile(folder / "train.log").line("first");
  io::LogFile log(folder / "train.log");
  log.line("second\n\tand more");
  const std::string text = io::read_file(folder / "train.log");
  REQUIRE(text.size() == 2 * 24 + std::string("first\nsecond\n\tand more\n").size());
  CHECK_THAT(text.substr(0, 24), Catch::Matchers::Matches(R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} )"));
  CHECK(text.substr(24, 6) == "first\n");
  CHECK(text.substr(54) == "second\n\tand more\n");
}

TEST_CASE("no text of a log looks like another line, or controls a terminal", "[unit]") {
  const TemporaryFolder folder;
  io::LogFile(folder / "train.log").line("a\n2026-01-31 12:00:00.000 b\x1b[31m\r\n\tc");
  CHECK_THAT(io::read_file(folder / "train.log"),
             Contains("a\n  2026-01-31 12:00:00.000 b\\x1b[31m\\x0d\n\tc\n"));
}

TEST_CASE("lines of several threads do not mix", "[unit]") {
  const TemporaryFolder folder;
  {
    io::LogFile log(folder / "train.log");
    std::vector<std::thread> threads;
    for (const char letter : {'a', 'b', 'c', 'd'}) {
      threads.emplace_back([&, letter] {
        for (int i = 0; i < 200; ++i) log.line(std::string(300, letter));
      });
    }
    for (auto& thread : threads) thread.join();
  }
  const std::string text = io::read_file(folder / "train.log");
  REQUIRE(text.size() == 800 * 325);
  std::size_t mixed = 0;
  for (std::size_t at = 0; at < text.size(); at += 325) {
    mixed += text.substr(at + 24, 301) != std::string(300, text[at + 24]) + "\n";
  }
  CHECK(mixed == 0);
}

TEST_CASE("a log on a full disk reports it", "[unit]") {
  const TemporaryFolder folder;
  io::LogFile log(folder / "train.log");
  {
    const FileSizeLimit limit(8);
    CHECK_THAT(file_error_of([&] { log.line("text"); }), Contains("File too large") && Contains("ulimit -f"));
  }
  CHECK_THAT(file_error_of([&] { io::LogFile("/nowhere/train.log"); }),
             Contains("cannot open '/nowhere/train.log'"));
}

TEST_CASE("a system error names the action, the path, the reason and a remedy", "[unit]") {
  CHECK(std::string(io::file_error("write", "a/b", ENOSPC).what()) ==
        "cannot write 'a/b': No space left on device. Free some space there or choose another folder.");
  CHECK(io::file_error("write", "a/b", EROFS).exit_code() == core::kExitFile);
}

}  // namespace
}  // namespace snake_ddp::io
