// metrics.jsonl: lines that any JSON reader takes, and restarts that leave each step once.
#include "io/metrics.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/atomic_file.hpp"
#include "snake_ddp/core/error.hpp"
#include "temporary_folder.hpp"

namespace {

using namespace snake_ddp;
using io::MetricsLine;
using io::MetricsWriter;
using io::TemporaryFolder;

std::vector<std::int64_t> steps_in(const TemporaryFolder& folder) {
  std::ifstream file(folder / io::kMetricsFile);
  std::vector<std::int64_t> steps;
  for (std::string line; std::getline(file, line);) steps.push_back(nlohmann::json::parse(line)["step"]);
  return steps;
}

void write(const TemporaryFolder& folder, std::int64_t last_step, const std::vector<std::int64_t>& steps) {
  MetricsWriter writer(folder.path(), last_step);
  for (const std::int64_t step : steps) writer.add(MetricsLine(step, step / 10, 0.1, 1.8e9));
}

}  // namespace

TEST_CASE("a line of metrics is flat JSON whose numbers are those that were given", "[unit]") {
  MetricsLine line(1'000'000'000'000, 7, 0.25, 1.8e9);
  line.add("a/whole", 3e9);
  line.add("a/float", static_cast<double>(0.3F));
  line.add("a/third", 1.0 / 3);
  line.add("a/none", std::numeric_limits<double>::quiet_NaN());
  line.add("a/most", std::numeric_limits<double>::infinity());
  line.add("opponent", std::string("\"a\"\n\xff"));
  CHECK(line.text() ==
        "{\"step\":1000000000000,\"episode\":7,\"minutes\":0.25000,\"time\":1800000000.000,\"a/"
        "whole\":3000000000,"
        "\"a/float\":0.3,\"a/third\":0.333333333,\"a/none\":null,\"a/most\":null,"
        "\"opponent\":\"\\\"a\\\"\\n\xef\xbf\xbd\"}\n");
  CHECK(nlohmann::json::parse(line.text())["a/whole"] == 3'000'000'000);
}

TEST_CASE("a restart continues metrics after its step, and cuts off later and incomplete lines", "[unit]") {
  const TemporaryFolder folder;
  write(folder, 0, {0, 10, 20, 20, 30});
  CHECK(steps_in(folder) == std::vector<std::int64_t>{0, 10, 20, 20, 30});
  write(folder, 20, {30, 40});
  CHECK(steps_in(folder) == std::vector<std::int64_t>{0, 10, 20, 20, 30, 40});
  const std::string path = folder / io::kMetricsFile;
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  write(folder, 40, {50});
  CHECK(steps_in(folder) == std::vector<std::int64_t>{0, 10, 20, 20, 30, 50});
  std::ofstream(path, std::ios::app) << "a stranger's line\n" << std::string(200'000, 'x') << "\n";
  write(folder, 50, {60});
  const std::string text = io::read_file(path);
  CHECK(text.find("a stranger's line\nxxx") != text.npos);
  CHECK(text.ends_with("\"time\":1800000000.000}\n"));
  write(folder, 9, {});
  CHECK(steps_in(folder) == std::vector<std::int64_t>{0});
}

TEST_CASE("metrics are not written through a link", "[unit]") {
  const TemporaryFolder folder, elsewhere;
  std::filesystem::create_symlink(elsewhere / "file", folder / io::kMetricsFile);
  CHECK_THROWS_AS(MetricsWriter(folder.path(), 0), core::FileError);
  CHECK_FALSE(std::filesystem::exists(elsewhere / "file"));
}
