#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

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
  for (const char* name : {"../part", "/part", ".part", ""}) {
    const std::string unfinished = io::unfinished_checkpoint(run, 5);
    io::Manifest m;
    m.step = 5;
    m.world_size = 1;
    m.files.push_back({name, io::write_sealed(run + "/checkpoints/part", "some bytes")});
    io::finish_checkpoint(run, m, 1);
    CHECK_THROWS_WITH(io::read_manifest(io::checkpoint_folder(run, 5)), Catch::Contains("leads elsewhere"));
  }
  const std::string manifest = io::checkpoint_folder(run, 5) + "/manifest.json";
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
