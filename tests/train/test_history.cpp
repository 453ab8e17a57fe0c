// Reading a run's folder: its reports, the log, and incomplete folders.
#include "train/history.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "../io/temporary_folder.hpp"
#include "io/atomic_file.hpp"
#include "io/metrics.hpp"
#include "io/run_folder.hpp"
#include "snake_ddp/core/error.hpp"

namespace {

using namespace snake_ddp;
using Catch::Matchers::Contains;
using io::TemporaryFolder;

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST_CASE("curves have the points of all reports, and a restart replaces those after its step", "[unit]") {
  const TemporaryFolder folder;
  put(folder / "config.json", "{}");
  for (const int start : {0, 1}) {
    io::MetricsWriter writer(folder.path(), 30 * start);
    for (int k = start == 0 ? 1 : 4; k <= 5; ++k) {
      io::MetricsLine line(10 * k, k, k + 0.5 * start, 1000.0 * k + 7 * start);
      line.add("a/tag", k + 100.0 * start);
      writer.add(line);
    }
  }
  const train::History history = train::read_history(folder.path());
  REQUIRE(history.damage.size() == 1);
  CHECK_THAT(history.damage[0], Contains("train.log") && Contains("No such file"));
  const train::Curve& curve = history.curves.at("a/tag");
  CHECK(curve.value == std::vector<double>{1, 2, 3, 104, 105});
  for (int k = 0; k < 5; ++k) {
    const train::Moment& at = curve.at[static_cast<std::size_t>(k)];
    CHECK((at.steps == 10 * (k + 1) && at.episode == k + 1 && at.minutes == (k < 3 ? k + 1 : k + 1.5)));
  }
}

TEST_CASE("a moment between two reports has steps between theirs, and its minutes do not count a break",
          "[unit]") {
  train::History history;
  history.moments = {{1, 100, 3}, {2, 200, 4}, {2.5, 300, 5}};
  history.times = {1000, 1060, 5000};
  CHECK(history.moment_at(900).minutes == 0);
  CHECK(history.moment_at(1030).minutes == Approx(1.5));
  CHECK((history.moment_at(1030).steps == 150 && history.moment_at(1030).episode == 3));
  CHECK(history.moment_at(3030).minutes == 2.5);
  CHECK(history.moment_at(3030).steps == 250);
  CHECK((history.moment_at(9000).minutes == 2.5 && history.moment_at(9000).episode == 5));
}

TEST_CASE("evaluations and ratings are read with what belongs to them", "[unit]") {
  const TemporaryFolder folder;
  put(folder / "config.json", "{}");
  put(folder / io::kMetricsFile,
      R"({"step":1,"episode":1,"minutes":1,"time":1e9,"opponent":"level2","games":40,"eval/win_rate":0.5})"
      "\n"
      R"({"step":2,"episode":2,"minutes":2,"time":1e9,"elo_low":-5,"elo_high":15,"league/elo":5})"
      "\n"
      R"({"step":3,"episode":3,"minutes":3,"time":1e9,"opponent":7,"games":"x","eval/win_rate":null})"
      "\n");
  const train::History history = train::read_history(folder.path());
  REQUIRE(history.evaluations.size() == 2);
  const train::Evaluated &first = history.evaluations[0], &odd = history.evaluations[1];
  CHECK((first.opponent == "level2" && first.games == 40 && first.win_rate == 0.5 && first.at.steps == 1));
  CHECK((odd.opponent.empty() && odd.games == 0 && std::isnan(odd.win_rate)));
  REQUIRE(history.ratings.size() == 1);
  CHECK((history.ratings[0].elo == 5 && history.ratings[0].low == -5 && history.ratings[0].high == 15));
  CHECK(history.curves.size() == 2);  // names without a slash are no curves
}

TEST_CASE("lines of the log have their time, without the lines that continue them", "[unit]") {
  const TemporaryFolder folder;
  put(folder / "config.json", "{}");
  put(folder / "train.log",
      "2026-01-31 12:00:00.250 one\n\t\tcontinued\n2026-01-31 12:00:01.000 two: 2026-01-31\nno "
      "time\n2026-01-");
  const train::History history = train::read_history(folder.path());
  REQUIRE(history.log.size() == 2);
  CHECK(history.log[0].text == "one");
  CHECK(history.log[1].text == "two: 2026-01-31");
  CHECK(history.log[1].time - history.log[0].time == Approx(0.75));
  REQUIRE(history.damage.size() == 1);
  CHECK_THAT(history.damage[0], Contains("metrics.jsonl") && Contains("No such file"));
}

TEST_CASE("a run is running while a process locks its folder", "[unit]") {
  const TemporaryFolder folder;
  put(folder / "config.json", "{}");
  {
    const io::RunClaim claim(folder.path());
    CHECK(train::read_history(folder.path()).is_running);
  }
  CHECK(!train::read_history(folder.path()).is_running);
  const io::RunClaim again(folder.path());  // looking leaves no lock
}

TEST_CASE("a folder without complete settings is not a run's", "[unit]") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(train::read_history(folder.path()), Contains("is not a run folder"));
  for (const char* text : {"{\"gamma\": ", "[]"}) {
    put(folder / "config.json", text);
    CHECK_THROWS_AS(train::read_history(folder.path()), core::FileError);
  }
}

TEST_CASE("lines that are no reports are counted, and all others read", "[unit]") {
  const TemporaryFolder folder;
  put(folder / "config.json", "{}");
  put(folder / "train.log", "");
  std::string text;
  for (const char* line :
       {R"({"step":10,"episode":1,"minutes":1,"time":1e9,"a/b":1})", "something else", "[1]", "{}",
        R"({"step":-1,"episode":1,"minutes":1,"time":1e9,"a/b":2})",
        R"({"step":1.5,"episode":1,"minutes":1,"time":1e9,"a/b":2})",
        R"({"step":11,"episode":1e300,"minutes":1,"time":1e9,"a/b":2})",
        R"({"step":11,"episode":1,"minutes":1,"time":-1e300,"a/b":2})",
        R"({"step":9,"episode":1,"minutes":1,"time":1e9,"a/b":2})",
        R"({"step":11,"episode":2,"minutes":0.5,"time":9e8,"a/b":3,"a/c":"x"})",
        R"({"step":12,"episode":2,"minutes":1,"time":1e9,"a/d":-1e300})", R"({"step":13,"epis)"})
    text += std::string(line) + "\n";
  put(folder / io::kMetricsFile, text);
  const train::History history = train::read_history(folder.path());
  CHECK(history.curves.at("a/b").value == std::vector<double>{1, 3});
  CHECK(history.curves.size() == 2);
  CHECK(std::isnan(history.curves.at("a/d").value.at(0)));  // no page takes differences of such numbers
  CHECK(history.moments.back().minutes == 1);               // time does not go back
  REQUIRE(history.damage.size() == 1);
  CHECK(history.damage[0] == "9 lines of metrics.jsonl are no report; they are left out.");
}
