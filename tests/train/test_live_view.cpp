#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "train/live_view.hpp"

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

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::size_t width(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// All that a screen can show.
train::RunProgress full_progress() {
  train::RunProgress p = progress();
  p.title = "run3: ddpg, 3 ranks on CPU";
  p.seconds = 360;
  p.max_seconds = 900;
  for (const double rate : {0.0, 0.5, 1.0}) {
    p.evaluations.add(rate);
    p.training_wins.add(rate / 2);
    p.elo.add(100 * rate);
    p.critic_loss.add(9 - rate);
  }
  p.evaluation = "87.3 % [79.4, 92.5] of 100 games";
  p.training = "65.1 % won, level 2, epsilon 0.12";
  p.league = "Elo 312 [280, 344], 5 members";
  p.losses = "critic 2.34, actor -0.12";
  p.speed = "12.3k steps/s";
  p.ranks = {{"a", 0.5, 480}, {"a", 0.97, 500}, {"b", 0.55, 512}};
  return p;
}

}  // namespace

TEST_CASE("the bar shows progress to the limit that ends the run first", "[unit]") {
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

TEST_CASE("a sparkline is drawn from the lowest to the highest line, many values as means", "[unit]") {
  train::Sparkline line;
  CHECK(line.drawn(8, false).empty());
  for (int k = 0; k < 8; ++k) line.add(k);
  CHECK(line.drawn(8, false) == "_.-~=+*#");
  CHECK(line.drawn(8, true) == "▁▂▃▄▅▆▇█");
  CHECK(line.drawn(4, false) == "_-+#");
  CHECK(line.drawn(20, 0, 16, false) == "__..--~~");
  CHECK(line.drawn(3, 0, 1, false) == "=##");
  for (int k = 8; k < 100'000; ++k) line.add(k);
  const std::string rise = line.drawn(30, true);
  CHECK(width(rise) == 30);
  CHECK(rise.starts_with("▁▁▁▁▂"));
  CHECK(rise.ends_with("█"));
  train::Sparkline flat, broken;
  flat.add(3);
  CHECK(flat.drawn(5, false) == "=");
  broken.add(std::nan(""));
  broken.add(1);
  CHECK(width(broken.drawn(5, false)) == 2);
}

TEST_CASE("the screen has a line for each thing that is known, and fits", "[unit]") {
  CHECK(lines_of(train::screen_text(progress(), {}, 80, true)).size() == 2);
  const train::RunProgress p = full_progress();
  const std::vector<std::string> lines = lines_of(train::screen_text(p, {"evaluating", 9, 2.9}, 100, false));
  REQUIRE(lines.size() == 8);
  CHECK_THAT(lines[0], StartsWith("-- run3: ddpg, 3 ranks on CPU ------"));
  CHECK_THAT(
      lines[1],
      StartsWith("time        #########...............  40 %, 09:00 left, 06:00 of 15:00, episode 1000"));
  CHECK_THAT(lines[2], StartsWith("evaluation  _=#                       87.3 % [79.4, 92.5] of 100 games"));
  CHECK_THAT(lines[3], StartsWith("training    _-=                       65.1 % won"));
  CHECK_THAT(lines[4], StartsWith("league      _=#                       Elo 312"));
  CHECK_THAT(lines[5], StartsWith("loss        #=_                       critic 2.34"));
  CHECK(lines[6] == "speed       12.3k steps/s");
  CHECK(lines[7] ==
        "ranks       0 50 %, 1 97 %, 2 55 % at work; the others wait for rank 1 on a, 480 to 512 MB");
  CHECK(lines_of(train::screen_text(p, {"evaluating", 12.4, 15}, 100, false)).back() ==
        "now         evaluating, for 12 s");
  for (const bool utf8 : {false, true})
    for (int columns = 2; columns <= 200; ++columns)
      for (const std::string& line : lines_of(train::screen_text(p, {"learning", 60, 60}, columns, utf8))) {
        CAPTURE(columns, line);
        CHECK(width(line) < static_cast<std::size_t>(columns));
      }
}

TEST_CASE("of many ranks the screen shows those that the others wait for", "[unit]") {
  train::RunProgress p = progress();
  const auto last_line = [&] { return lines_of(train::screen_text(p, {}, 80, false)).back(); };
  p.ranks = {{"a", 0.9, 480}, {"a", 0.91, 500}};
  CHECK(last_line() == "ranks       0 90 %, 1 91 % of their time at work, 480 to 500 MB");
  p.ranks = {{"a", std::nullopt, 480}, {"a", std::nullopt, 500}};  // on GPUs
  CHECK(last_line() == "ranks       0 480 MB, 1 500 MB");
  p.ranks.assign(64, {"a", 0.25, 100});
  p.ranks[41].own_work = 0.75;
  p.ranks[7].own_work = 0.5;
  CHECK(last_line() == "ranks       41 75 %, 7 50 %, 62 more at work; the others wait for rank 41");
}
