#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

#include "refusals.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/io/atomic_file.hpp"
#include "snake_ddp/io/checkpoint_folder.hpp"
#include "snake_ddp/io/run_folder.hpp"
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

}  // namespace

TEST_CASE("a finished checkpoint is found, whole, and the oldest ones go", "[unit]") {
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

TEST_CASE("a checkpoint of the same step takes the place of the one before", "[unit]") {
  const TemporaryFolder folder;
  const std::string run = folder.path().string();
  write_one(run, 5, 1);
  write_over(io::checkpoint_folder(run, 5) + "/part", "damaged");
  write_one(run, 5, 1);
  CHECK_NOTHROW(io::verify_checkpoint(io::checkpoint_folder(run, 5)));
}

TEST_CASE("what is unfinished is no checkpoint and can be cleared away", "[unit]") {
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

TEST_CASE("a checkpoint whose folder or files went away before it was finished is refused", "[unit]") {
  const TemporaryFolder folder;
  const std::string run = folder / "run", checkpoints = run + "/checkpoints";
  const std::string unfinished = checkpoints + "/.step_000000000007";
  struct Case {
    const char* what;
    std::function<void()> happens;
    const char* told;
  };
  const std::vector<Case> cases = {
      {"the run's folder is moved away and made anew",
       [&] {
         fs::rename(run, folder / "taken");
         fs::create_directories(run + "/trained_model");
       },
       "part was written"},
      {"its folder is removed", [&] { fs::remove_all(unfinished); }, "part was written"},
      {"the folder is made anew, a rank's part is there, another's is not",
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
                      Catch::Contains(c.told) || Catch::Contains("own was written"));
    CHECK_FALSE(fs::exists(io::checkpoint_folder(run, 7)));
    if (fs::exists(checkpoints)) {
      CHECK(io::checkpoints_of(run) == std::vector<std::int64_t>{5});
      CHECK(io::read_file(checkpoints + "/latest") == "step_000000000005\n");
    }
  }
}

TEST_CASE("without room a checkpoint is not finished, and the one before stays the latest", "[unit]") {
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
    const io::FileSizeLimit limit(0);  // a disk that takes names only
    CHECK_NOTHROW(io::mark_resumable(run, true));
    CHECK(fs::exists(run + "/checkpoints/resumable"));
  }
  CHECK_NOTHROW(io::finish_checkpoint(run, m, 1));
  CHECK(io::checkpoints_of(run) == std::vector<std::int64_t>{7});
}

TEST_CASE("every flipped bit of a manifest and of a file is noticed", "[property]") {
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
      if (!blank) REQUIRE_THROWS_AS(io::verify_checkpoint(there), base::FileError);
    }
    for (std::size_t length = 0; length + 2 < whole.size(); ++length) {
      write_over(name, whole.substr(0, length));
      REQUIRE_THROWS_AS(io::verify_checkpoint(there), base::FileError);
    }
    write_over(name, whole);
  }
  CHECK_NOTHROW(io::verify_checkpoint(there));
}

TEST_CASE("manifests that nobody wrote are refused", "[unit]") {
  const TemporaryFolder folder;
  const std::string run = folder.path().string();
  write_one(run, 5, 1);
  const std::string manifest = io::checkpoint_folder(run, 5) + "/manifest.json";
  for (const char* name : {"../part", "/part", ".part", ""}) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(io::read_file(manifest));
    json.erase("checksum");
    json["files"][0]["name"] = name;
    json["checksum"] = io::write_sealed(folder / "text", json.dump()).crc32;
    io::write_json(manifest, json);
    CHECK_THROWS_WITH(io::read_manifest(io::checkpoint_folder(run, 5)), Catch::Contains("leads elsewhere"));
  }
  for (const std::string& text :
       {std::string("[]"), std::string("{}"), std::string("{\"checksum\": 1, \"format\": \"x\"}"),
        std::string(1000000, '['),
        "{\"checksum\":0,\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}"}) {
    write_over(manifest, text);
    CHECK_THROWS_AS(io::read_manifest(io::checkpoint_folder(run, 5)), base::FileError);
  }
}

TEST_CASE("a run's folder is held by one process", "[unit]") {
  const TemporaryFolder folder;
  {
    const io::RunClaim claim(folder.path().string());
    CHECK_THROWS_WITH(io::RunClaim(folder.path().string()),
                      Catch::Contains("being written by another process"));
  }
  CHECK_NOTHROW(io::RunClaim(folder.path().string()));
}
