#include <catch2/catch.hpp>
#include <string>

#include "snake_ddp/train/reporter.hpp"

using namespace snake_ddp;
using Catch::Contains;
using Catch::StartsWith;

namespace {

train::RunProgress progress() {
  train::RunProgress p;
  p.episode = 1'000;
  p.max_episodes = 10'000'000;
  p.episodes_per_s = 10;
  return p;
}

}  // namespace

TEST_CASE("the bar runs against the bound that ends the run first", "[unit]") {
  train::RunProgress p = progress();
  CHECK_THAT(train::bar_text(p, 200), StartsWith("Training   0% |") && Contains("11d 13h left") &&
                                          Contains("episode 1000 of 10000000"));

  p.seconds = 360;  // 100 of them in this start, the others before a --resume
  p.max_seconds = 900;
  CHECK_THAT(
      train::bar_text(p, 200),
      StartsWith("Training  40% |############                  | 09:00 left") && Contains("06:00 of 15:00"));

  p.max_episodes = 4'000;
  CHECK_THAT(train::bar_text(p, 200),
             StartsWith("Training  25% |") && Contains("05:00 left") && Contains("episode 1000 of 4000"));

  p.episodes_per_s = 0;  // no game has ended yet: only time says something
  CHECK_THAT(train::bar_text(p, 200), StartsWith("Training  40% |") && Contains("09:00 left"));
  p.max_seconds = 0;
  CHECK_THAT(train::bar_text(p, 200), StartsWith("Training  25% |") && !Contains("left"));

  p.episode = 4'100;  // other ranks still play
  p.episodes_per_s = 10;
  CHECK_THAT(train::bar_text(p, 200), StartsWith("Training 100% |") && Contains("00:00 left"));
}

TEST_CASE("the bar says which win rate it shows, and the target of evaluations", "[unit]") {
  train::RunProgress p = progress();
  CHECK_THAT(train::bar_text(p, 200), !Contains("win rate") && !Contains("steps/s"));
  p.win_rate = 0.5;
  p.target_win_rate = 0.8;
  p.steps_per_s = 9'999;
  CHECK_THAT(train::bar_text(p, 200), Contains(" left, training win rate 50.0 %, 9999 steps/s, episode"));
  p.evaluated = true;
  p.steps_per_s = 123'456;
  CHECK_THAT(train::bar_text(p, 200), Contains(" left, eval win rate 50.0 / 80 %, 123.5k steps/s, episode"));
  p.target_win_rate = 0;
  p.steps_per_s = 1'234'567;
  CHECK_THAT(train::bar_text(p, 200), Contains(" left, eval win rate 50.0 %, 1.23M steps/s, episode"));
}

TEST_CASE("the bar fits every terminal and leaves out the least important first", "[unit]") {
  train::RunProgress p = progress();
  p.seconds = 3'600;
  p.max_seconds = 36'000;
  p.win_rate = 0.612;
  p.evaluated = true;
  p.target_win_rate = 0.8;
  p.steps_per_s = 12'345;
  std::size_t before = 0;
  for (int columns = 1; columns <= 200; ++columns) {
    const std::string text = train::bar_text(p, columns);
    CAPTURE(columns, text);
    CHECK(text.size() < static_cast<std::size_t>(columns));
    CHECK(text.size() >= before);
    before = text.size();
    const std::size_t left = text.find("9:00:00 left"), rate = text.find("eval win rate 61.2 / 80 %"),
                      speed = text.find("12.3k steps/s"), count = text.find("1:00:00 of 10:00:00");
    CHECK((left <= rate && rate <= speed && speed <= count));
    if (columns >= 40) CHECK(left != std::string::npos);
    if (columns >= 80) CHECK(speed != std::string::npos);
    if (columns >= 120) CHECK(count != std::string::npos);
  }
}
