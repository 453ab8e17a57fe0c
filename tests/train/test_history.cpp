// Reading a run's folder: curves across restarts, the log, and incomplete folders.
#include "snake_ddp/train/history.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "../files/temporary_folder.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/files/event_writer.hpp"
#include "snake_ddp/files/run_folder.hpp"
#include "snake_ddp/records/atomic_file.hpp"

namespace {

using namespace snake_ddp;
using Catch::Matchers::Contains;
using files::TemporaryFolder;

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST_CASE("a restart replaces the points from its episode on, and breaks do not count as training",
          "[unit]") {
  const TemporaryFolder folder;
  put(folder / "config.json", "{}");
  {
    files::EventWriter first(folder.path());
    for (int episode = 1; episode <= 4; ++episode) first.scalar("tag", 10 * episode, episode);
  }
  {
    files::EventWriter second(folder.path());
    second.restart(3);
    for (int episode = 3; episode <= 5; ++episode) second.scalar("tag", 20 * episode, episode);
  }
  const train::History history = train::read_history(folder.path());
  REQUIRE(history.damage.size() == 1);
  CHECK_THAT(history.damage[0], Contains("train.log") && Contains("No such file"));
  const train::Curve& curve = history.curves.at("tag");
  CHECK(curve.episode == std::vector<std::int64_t>{1, 2, 3, 4, 5});
  CHECK(curve.value == std::vector<float>{10, 20, 60, 80, 100});
  REQUIRE(history.stretches.size() == 2);
  CHECK(history.stretches[0].end == curve.time[1]);
  CHECK(history.stretches[1].end == curve.time[4]);
}

TEST_CASE("minutes are those of the stretches", "[unit]") {
  train::History history;
  history.stretches = {{1000, 1060, 0}, {5000, 5120, 60}};
  CHECK(history.minutes(900) == 0);
  CHECK(history.minutes(1030) == Approx(0.5));
  CHECK(history.minutes(3000) == Approx(1));
  CHECK(history.minutes(5060) == Approx(2));
  CHECK(history.minutes(9000) == Approx(3));
}

TEST_CASE("a start that continues a run says how far it was", "[unit]") {
  const TemporaryFolder folder;
  put(folder / "config.json", "{}");
  for (int start = 0; start < 3; ++start) {  // each begins again where the first one was after 40 seconds
    files::EventWriter writer(folder.path());
    if (start > 0) {
      writer.restart(1);
      writer.scalar(train::kEarlierSteps, 800, 0);
      writer.scalar(train::kEarlierSeconds, 40, 0);
    }
    writer.scalar("tag", start, 0);
    writer.scalar("tag", start, 5);
  }
  const train::History history = train::read_history(folder.path());
  const train::Curve& curve = history.curves.at("tag");
  CHECK(curve.episode == std::vector<std::int64_t>{0, 0, 0, 5});
  REQUIRE(history.stretches.size() == 3);
  CHECK(history.stretches[0].steps == -1);
  CHECK(history.stretches[2].steps == 800);
  CHECK(history.minutes(curve.time.back()) == Approx(40.0 / 60).margin(0.02));
  CHECK(history.minutes(curve.time.front()) == Approx(0).margin(0.02));
  CHECK(history.curves.count(train::kEarlierSteps) == 0);
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
  CHECK(history.damage == std::vector<std::string>{"There is no event file: no curves."});
}

TEST_CASE("a run is running while a process locks its folder", "[unit]") {
  const TemporaryFolder folder;
  put(folder / "config.json", "{}");
  {
    const files::RunClaim claim(folder.path());
    CHECK(train::read_history(folder.path()).is_running);
  }
  CHECK(!train::read_history(folder.path()).is_running);
  const files::RunClaim again(folder.path());  // looking leaves no lock
}

TEST_CASE("a folder without complete settings is not a run's", "[unit]") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(train::read_history(folder.path()), Contains("is not a run folder"));
  for (const char* text : {"{\"gamma\": ", "[]"}) {
    put(folder / "config.json", text);
    CHECK_THROWS_AS(train::read_history(folder.path()), base::FileError);
  }
}

TEST_CASE("damaged event files are reported, and read up to the damage", "[unit]") {
  const TemporaryFolder folder;
  put(folder / "config.json", "{}");
  put(folder / "train.log", "");
  std::string path;
  {
    files::EventWriter writer(folder.path());
    path = writer.path();
    for (int i = 0; i < 3; ++i) writer.scalar("tag", i, i);
  }
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  put(folder / "events.out.tfevents.9999999999.x", "something else than events");
  const train::History history = train::read_history(folder.path());
  CHECK(history.curves.at("tag").value == std::vector<float>{0, 1});
  REQUIRE(history.damage.size() == 2);
  CHECK_THAT(history.damage[0], Contains("ends within a record"));
  CHECK_THAT(history.damage[1], Contains("is not an event file"));
}
