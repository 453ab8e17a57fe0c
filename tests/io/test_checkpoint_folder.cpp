#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <utility>
#include <vector>

#include "io/atomic_file.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/file_error.hpp"
#include "io/run_folder.hpp"
#include "refusals.hpp"
#include "snake_ddp/core/error.hpp"
#include "temporary_folder.hpp"

namespace {

using namespace snake_ddp;
using io::TemporaryFolder;
namespace fs = std::filesystem;

io::Manifest write_one(const std::string& run, std::int64_t step, int keep) {
  const std::string folder = io::unfinished_checkpoint(run, step);
  io::Manifest m;
  m.step = step;
  m.world_size = 1;
  m.settings = {{"gamma", 0.1}, {"name", "caf\xe9"}};
  m.files.push_back({"part", io::write_sealed(folder + "/part", "some bytes")});
  io::finish_checkpoint(run, m, keep);
  return m;
}

void write_over(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The outcome of reading a checkpoint: "whole", "damaged", an errno value, or "useless".
std::string verdict_on(const std::string& checkpoint) {
  try {
    io::verify_checkpoint(checkpoint);
    return "whole";
  } catch (const io::DamagedFile&) {
    return "damaged";
  } catch (const io::SystemError& e) {
    return std::to_string(e.number);
  } catch (const core::FileError&) {
    return "useless";
  }
}

bool like_a_network_drive = false;
std::function<void()> after_each_change;  // of a folder

long changed(long result) {
  const int error = errno;
  if (after_each_change) after_each_change();
  errno = error;
  return result;
}

}  // namespace

extern "C" int rename(const char* from, const char* to) noexcept {
  return static_cast<int>(changed(::syscall(SYS_rename, from, to)));
}

// Network file systems cannot exchange two folders.
extern "C" int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
  if (like_a_network_drive && flags != 0) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(changed(::syscall(SYS_renameat2, from_at, from, to_at, to, flags)));
}

extern "C" int unlinkat(int at, const char* name, int flags) noexcept {
  return static_cast<int>(changed(::syscall(SYS_unlinkat, at, name, flags)));
}

// Network file systems lock only files that are open for writing.
extern "C" int flock(int descriptor, int operation) noexcept {
  if (like_a_network_drive && (::fcntl(descriptor, F_GETFL) & O_ACCMODE) == O_RDONLY) {
    errno = EBADF;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
}

TEST_CASE("while a checkpoint of the same step is replaced, one of them is whole at each moment", "[unit]") {
  like_a_network_drive = GENERATE(false, true);
  const TemporaryFolder folder;
  const std::string run = folder.path().string(), newest = io::checkpoint_folder(run, 7);
  write_one(run, 7, 1);
  int changes = 0;
  after_each_change = [&] {
    ++changes;
    const auto is_whole = [](const fs::directory_entry& entry) {
      return entry.path().filename().string().front() != '.' && entry.is_directory() &&
             verdict_on(entry.path()) == "whole";
    };
    const fs::directory_iterator all(run + "/checkpoints");
    CHECK(std::any_of(begin(all), end(all), is_whole));
    if (!like_a_network_drive) CHECK(verdict_on(newest) == "whole");
  };
  write_one(run, 7, 1);
  after_each_change = nullptr;
  like_a_network_drive = false;
  CHECK(changes >= 4);
  CHECK(verdict_on(newest) == "whole");
  CHECK(std::distance(fs::directory_iterator(run + "/checkpoints"), {}) == 2);  // latest, too
}

TEST_CASE("a finished checkpoint is found complete, and the oldest ones are removed", "[unit]") {
  const TemporaryFolder folder;
  const std::string run = folder.path().string();
  CHECK(io::checkpoints_of(run).empty());
  for (const std::int64_t step : {0, 20, 100, 3}) write_one(run, step, 3);
  CHECK(io::checkpoints_of(run) == std::vector<std::int64_t>{100, 20, 3});
  CHECK(io::read_file(run + "/checkpoints/latest") == "step_000000000003\n");
  const io::Manifest m = io::verify_checkpoint(io::checkpoint_folder(run, 100));
  CHECK(m.step == 100);
  CHECK(m.settings.at("gamma") == 0.1);
  CHECK(m.find("part")->bytes == 10);
  CHECK(m.find("other") == nullptr);
}

TEST_CASE("a checkpoint of the same step replaces the earlier one", "[unit]") {
  const TemporaryFolder folder;
  const std::string run = folder.path().string();
  write_one(run, 5, 1);
  write_over(io::checkpoint_folder(run, 5) + "/part", "damaged");
  write_one(run, 5, 1);
  CHECK_NOTHROW(io::verify_checkpoint(io::checkpoint_folder(run, 5)));
}

TEST_CASE("an unfinished checkpoint does not count and can be removed", "[unit]") {
  const TemporaryFolder folder;
  const std::string run = folder.path().string();
  write_one(run, 5, 3);
  io::write_sealed(io::unfinished_checkpoint(run, 6) + "/part", "some");
  CHECK(io::checkpoints_of(run) == std::vector<std::int64_t>{5});
  io::discard_unfinished(run);
  CHECK_FALSE(fs::exists(run + "/checkpoints/.step_000000000006"));
  CHECK(io::set_aside(run, 5) == run + "/checkpoints/damaged_step_000000000005");
  CHECK(io::checkpoints_of(run).empty());
}

TEST_CASE("a checkpoint whose folder or files disappeared before it was finished is rejected", "[unit]") {
  const TemporaryFolder folder;
  const std::string run = folder / "run", checkpoints = run + "/checkpoints";
  const std::string unfinished = checkpoints + "/.step_000000000007";
  struct Case {
    const char* what;
    std::function<void()> happens;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"the run's folder is moved away and created again",
       [&] {
         fs::rename(run, folder / "taken");
         fs::create_directories(run + "/trained_model");
       },
       "part was written"},
      {"its folder is removed", [&] { fs::remove_all(unfinished); }, "part was written"},
      {"the folder is created again, a rank's part is there, another's is not",
       [&] { fs::rename(unfinished + "/part", folder / "part"); }, "/part was written"},
      {"a file is cut short", [&] { fs::resize_file(unfinished + "/own", 3); }, "has 3 of 10 bytes"}};
  for (const Case& c : cases) {
    CAPTURE(c.what);
    fs::remove_all(run);
    fs::remove_all(folder / "taken");
    fs::create_directories(run);
    write_one(run, 5, 1);
    io::Manifest m;
    m.step = 7;
    m.world_size = 2;
    io::unfinished_checkpoint(run, 7);
    for (const char* name : {"own", "part"})
      m.files.push_back({name, io::write_sealed(unfinished + "/" + name, "some bytes")});
    c.happens();
    CHECK_THROWS_WITH(io::finish_checkpoint(run, m, 1),
                      Catch::Contains(c.message) || Catch::Contains("own was written"));
    CHECK_FALSE(fs::exists(io::checkpoint_folder(run, 7)));
    if (fs::exists(checkpoints)) {
      CHECK(io::checkpoints_of(run) == std::vector<std::int64_t>{5});
      CHECK(io::read_file(checkpoints + "/latest") == "step_000000000005\n");
    }
  }
}

TEST_CASE("on a full disk a checkpoint is not finished, and the previous one stays the latest", "[unit]") {
  const TemporaryFolder folder;
  const std::string run = folder.path().string();
  write_one(run, 5, 1);
  io::Manifest m;
  m.step = 7;
  m.world_size = 1;
  m.files.push_back({"part", io::write_sealed(io::unfinished_checkpoint(run, 7) + "/part", "some bytes")});
  {
    const io::FileSizeLimit limit(50);
    CHECK_THROWS_WITH(io::finish_checkpoint(run, m, 1), Catch::Contains("File too large"));
    CHECK(io::checkpoints_of(run) == std::vector<std::int64_t>{5});
    CHECK(io::read_file(run + "/checkpoints/latest") == "step_000000000005\n");
  }
  {
    const io::FileSizeLimit limit(0);  // a disk with room for names only
    CHECK_NOTHROW(io::mark_resumable(run, true));
    CHECK(fs::exists(run + "/checkpoints/resumable"));
  }
  CHECK_NOTHROW(io::finish_checkpoint(run, m, 1));
  CHECK(io::checkpoints_of(run) == std::vector<std::int64_t>{7});
}

TEST_CASE("every flipped bit of a manifest and of a file is detected", "[property]") {
  const TemporaryFolder folder;
  const std::string run = folder.path().string();
  write_one(run, 5, 3);
  const std::string there = io::checkpoint_folder(run, 5);
  for (const std::string& name : {there + "/manifest.json", there + "/part"}) {
    const std::string whole = io::read_file(name);
    for (std::size_t byte = 0; byte < whole.size(); ++byte) {
      std::string damaged = whole;
      damaged[byte] = static_cast<char>(damaged[byte] ^ 4);
      write_over(name, damaged);
      // Blanks between the values mean nothing.
      const bool blank = name.ends_with(".json") && (whole[byte] == ' ' || whole[byte] == '\n');
      CAPTURE(name, byte);
      if (!blank) REQUIRE_THROWS_AS(io::verify_checkpoint(there), core::FileError);
    }
    for (std::size_t length = 0; length + 2 < whole.size(); ++length) {
      write_over(name, whole.substr(0, length));
      REQUIRE_THROWS_AS(io::verify_checkpoint(there), core::FileError);
    }
    write_over(name, whole);
  }
  CHECK_NOTHROW(io::verify_checkpoint(there));
}

TEST_CASE("invalid manifests are rejected", "[unit]") {
  const TemporaryFolder folder;
  const std::string run = folder.path().string();
  write_one(run, 5, 1);
  const std::string manifest = io::checkpoint_folder(run, 5) + "/manifest.json";
  for (const char* name : {"../part", "/part", ".part", ""}) {
    nlohmann::ordered_json object = nlohmann::ordered_json::parse(io::read_file(manifest));
    object.erase("checksum");
    object["files"][0]["name"] = name;
    object["checksum"] = io::write_sealed(folder / "text", object.dump()).crc32;
    io::write_json(manifest, object);
    CHECK_THROWS_WITH(io::read_manifest(io::checkpoint_folder(run, 5)),
                      Catch::Contains("points outside the folder"));
  }
  for (const std::string& text :
       {std::string("[]"), std::string("{}"), std::string("{\"checksum\": 1, \"format\": \"x\"}"),
        std::string(1000000, '['),
        "{\"checksum\":0,\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}"}) {
    write_over(manifest, text);
    CHECK_THROWS_AS(io::read_manifest(io::checkpoint_folder(run, 5)), core::FileError);
  }
}

TEST_CASE("only files that were read and differ from what was written are damaged", "[unit]") {
  const TemporaryFolder folder;
  const std::string run = folder.path().string();
  const fs::path there = io::checkpoint_folder(run, 5);
  const fs::path manifest = there / "manifest.json", part = there / "part";
  const auto replace = [&](const std::string& from, const std::string& to) {
    write_over(manifest, std::regex_replace(io::read_file(manifest), std::regex(from), to));
  };
  const auto loop = [](const fs::path& path) {
    fs::remove(path);
    fs::create_symlink(path, path);
  };
  const auto make_folder = [](const fs::path& path) {
    fs::remove(path);
    fs::create_directory(path);
  };
  const auto keep = [] {};
  const std::vector<std::tuple<std::string, std::function<void()>, std::string>> cases = {
      {"nothing happened", keep, "whole"},
      {"a part is missing", [&] { fs::remove(part); }, "damaged"},
      {"a part is short", [&] { fs::resize_file(part, 9); }, "damaged"},
      {"a part is long", [&] { fs::resize_file(part, 11); }, "damaged"},
      {"a part has other bytes", [&] { write_over(part, "same bytes"); }, "damaged"},
      {"a part cannot be opened", [&] { loop(part); }, std::to_string(ELOOP)},
      {"a part cannot be read", [&] { make_folder(part); }, std::to_string(EISDIR)},
      {"no manifest", [&] { fs::remove(manifest); }, "damaged"},
      {"an empty manifest", [&] { write_over(manifest, ""); }, "damaged"},
      {"a manifest with another number", [&] { replace("\"step\": 5", "\"step\": 6"); }, "damaged"},
      {"a manifest that cannot be opened", [&] { loop(manifest); }, std::to_string(ELOOP)},
      {"a manifest that cannot be read", [&] { make_folder(manifest); }, std::to_string(EISDIR)},
      {"no folder", [&] { fs::remove_all(there); }, std::to_string(ENOENT)},
      {"another format", [&] { replace("\"format\": 1", "\"format\": 2"); }, "useless"},
      {"another format, and no checksum",
       [&] {
         replace("\"format\": 1", "\"format\": 2");
         replace("\"checksum\"", "\"other\"");
       },
       "useless"}};
  for (const auto& [what, happens, expected] : cases) {
    fs::remove_all(there);
    write_one(run, 5, 1);
    happens();
    INFO(what);
    CHECK(verdict_on(there) == expected);
  }
  CHECK_THAT(
      io::file_error_of([&] { io::read_manifest(there); }),
      Catch::Contains("manifest.json is of format 2, written by \"\", and this version reads format 1"));
}

TEST_CASE("running out of descriptors does not count as damage", "[unit]") {
  const TemporaryFolder folder;
  const std::string run = folder.path().string();
  write_one(run, 5, 1);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{3, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const std::string verdict = verdict_on(io::checkpoint_folder(run, 5));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(verdict == std::to_string(EMFILE));
}

TEST_CASE("only folders with a checkpoint's own name are checkpoints", "[unit]") {
  const TemporaryFolder folder;
  const std::string run = folder.path().string();
  write_one(run, 5, 3);
  const fs::path home = fs::path(run) / "checkpoints";
  write_over(home / "step_000000000009", "a file");
  fs::create_directory_symlink(home / "nowhere", home / "step_000000000010");
  fs::create_directory(home / "step_11");
  fs::create_directory(home / "step_000000000012.copy");
  fs::create_directories(folder.path() / "elsewhere");
  fs::create_directory_symlink(folder.path() / "elsewhere", home / "step_000000000013");
  CHECK(io::checkpoints_of(run) == std::vector<std::int64_t>{13, 5});
}

TEST_CASE("nothing that was set aside is overwritten, and each can be used again by its name", "[unit]") {
  const TemporaryFolder folder;
  const std::string run = folder.path().string();
  for (const std::int64_t episode : {1, 2, 3}) {
    const std::string unfinished = io::unfinished_checkpoint(run, 7);
    io::Manifest m;
    m.step = 7;
    m.world_size = 1;
    m.episode = episode;
    m.files.push_back({"part", io::write_sealed(unfinished + "/part", "some bytes")});
    io::finish_checkpoint(run, m, 5);
    if (episode < 3) io::set_aside(run, 7);
  }
  for (const std::int64_t step : {4, 9}) write_one(run, step, 5);
  const std::string first = "damaged_step_000000000007", second = first + ".2";
  CHECK(io::damaged_checkpoints_of(run) == std::vector<std::string>{second, first});
  CHECK(io::take_up(run, first, 7) ==
        std::vector<std::string>{"left_step_000000000009", "left_step_000000000007"});
  CHECK(io::checkpoints_of(run) == std::vector<std::int64_t>{7, 4});
  CHECK(io::verify_checkpoint(io::checkpoint_folder(run, 7)).episode == 1);
  CHECK(io::verify_checkpoint(io::checkpoint_folder(run, "left_step_000000000007")).episode == 3);
  CHECK(io::read_file(run + "/checkpoints/latest") == "step_000000000007\n");
  CHECK(io::take_up(run, "step_000000000007", 7).empty());
  CHECK(io::take_up(run, "left_step_000000000009", 9).empty());
  CHECK(io::checkpoints_of(run) == std::vector<std::int64_t>{9, 7, 4});
}

TEST_CASE("only one process can lock a run's folder", "[unit]") {
  like_a_network_drive = GENERATE(false, true);
  const TemporaryFolder folder;
  {
    const io::RunClaim claim(folder.path().string());
    CHECK_THROWS_WITH(io::RunClaim(folder.path().string(), "train.log", "x", std::chrono::milliseconds(0)),
                      Catch::Contains("being written by another process"));
  }
  CHECK_NOTHROW(io::RunClaim(folder.path().string()));
  like_a_network_drive = false;
}
