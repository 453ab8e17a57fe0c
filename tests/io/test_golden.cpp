// Compared with the reference: recorded games, observations, opponents' moves, shaped rewards.
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "game/boards.hpp"
#include "game/plain_game.hpp"
#include "io/lines.hpp"
#include "io/verify_trace.hpp"
#include "snake_ddp/core/error.hpp"
#include "test_data.hpp"

using namespace snake_ddp;

namespace {

const std::string kTraces = test_data("games.jsonl.gz"), kEncodings = test_data("encodings.jsonl.gz");

std::vector<std::string> lines_of(const std::string& path) {
  io::LineReader reader(path);
  std::vector<std::string> lines;
  for (std::string line; reader.next(line);) lines.push_back(line);
  return lines;
}

/// A file of this test, gone when it ends.
struct ScratchTrace {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("sd_trace_" + std::to_string(::getpid()) + "_" + std::to_string(counter++) + ".jsonl");
  static inline int counter = 0;
  ~ScratchTrace() { std::filesystem::remove(path); }
  std::string write(const std::vector<std::string>& lines) const {
    std::ofstream out(path, std::ios::binary);
    for (const std::string& line : lines) out << line << '\n';
    return path.string();
  }
  std::string write_bytes(const std::string& bytes) const {
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("40 recorded games are played as the reference played them", "[golden]") {
  const io::TraceReport report = io::verify_traces({kTraces});
  CHECK(report.first_mismatch.empty());
  CHECK(report.games == 40);
  CHECK(report.steps == 8000);
  CHECK(report.mismatches == 0);
}

TEST_CASE("730 recorded boards give the reference's observations, moves and rewards", "[golden]") {
  const io::EncodingReport report = io::verify_encodings(kEncodings, kTraces);
  CHECK(report.first_mismatch.empty());
  CHECK(report.states == 730);
  CHECK(report.mismatches == 0);
}

TEST_CASE("any altered field of a recorded step is found and named", "[golden]") {
  std::vector<std::string> game = lines_of(kTraces);
  game.resize(201);
  struct Case {
    std::size_t line;
    std::string from, to, field;
  };
  // Line 1 of the game: {"actions":[1,3,2,1,0,1],"turned":[1,3,2,1,0,1],"snakes":[[143,...
  const std::vector<Case> cases = {
      {1, "\"turned\":[1,3,2", "\"turned\":[1,3,0", "turned"},
      {1, "[[143,123,103]", "[[143,123,122]", "snakes[0]"},
      {1, "\"directions\":[1,", "\"directions\":[3,", "directions"},
      {1, "\"beans\":[9,20,2,60,90]", "\"beans\":[9,20,2,90,60]", "beans"},
      {1, "\"beans\":[9,20,2,60,90]", "\"beans\":[9,20,2,60]", "beans"},
      {1, "\"reward\":[0,", "\"reward\":[1,", "reward"},
      {1, "\"hit\":[0,", "\"hit\":[1,", "hit"},
      {1, "\"done\":false", "\"done\":true", "done"},
      {200, "\"done\":true", "\"done\":false", "done"},
  };
  for (const Case& c : cases) {
    std::vector<std::string> lines = game;
    lines[c.line] = replaced(lines[c.line], c.from, c.to);
    const ScratchTrace file;
    const io::TraceReport report = io::verify_traces({file.write(lines)});
    INFO(c.to << ": " << report.first_mismatch);
    CHECK(report.mismatches == 1);
    CHECK_THAT(report.first_mismatch,
               Catch::Contains("game 0, step " + std::to_string(c.line) + ", " + c.field + ":"));
  }
}

TEST_CASE("chance that the rules forbid is a mismatch", "[golden]") {
  std::vector<std::string> game = lines_of(kTraces);
  game.resize(201);
  // The first step in which a bean is eaten: its last bean is new.
  std::size_t eaten = 1;
  while (game[eaten].find("\"reward\":[0,0,0,0,0,0]") != std::string::npos) ++eaten;
  const std::size_t from = game[eaten].find("\"beans\":["), to = game[eaten].find(']', from);
  const std::size_t last = game[eaten].rfind(',', to), snakes = game[eaten].find("[[") + 2;
  const std::string head = game[eaten].substr(snakes, game[eaten].find(',', snakes) - snakes);
  std::vector<std::string> lines = game;
  lines[eaten] = game[eaten].substr(0, last + 1) + head + game[eaten].substr(to);
  const ScratchTrace file;
  io::TraceReport report = io::verify_traces({file.write(lines)});
  CHECK(report.mismatches == 1);
  CHECK_THAT(report.first_mismatch, Catch::Contains("beans") && Catch::Contains("not free"));

  lines[eaten] = game[eaten].substr(0, last) + game[eaten].substr(to);
  report = io::verify_traces({file.write(lines)});
  CHECK(report.mismatches == 1);
  CHECK_THAT(report.first_mismatch, Catch::Contains("fewer new beans"));

  // A snake that continues in the opposite direction, by its own "turned".
  lines = game;
  lines[2] = replaced(lines[2], "\"actions\":[", "\"actions\":[0,3,2,1,0,1],\"was\":[");
  lines[2] = replaced(lines[2], "\"turned\":[", "\"turned\":[0,3,2,1,0,1],\"was_turned\":[");
  report = io::verify_traces({file.write(lines)});
  CHECK(report.mismatches == 1);
  CHECK_THAT(report.first_mismatch, Catch::Contains("step 2, turned"));
}

TEST_CASE("a game cut short or drawn out is a mismatch", "[golden]") {
  std::vector<std::string> game = lines_of(kTraces);
  game.resize(201);
  const ScratchTrace file;
  std::vector<std::string> lines = game;
  lines.pop_back();
  CHECK(io::verify_traces({file.write(lines)}).mismatches == 1);
  lines = game;
  lines.push_back(game.back());
  const io::TraceReport report = io::verify_traces({file.write(lines)});
  CHECK(report.mismatches == 1);
  CHECK_THAT(report.first_mismatch, Catch::Contains("after the end"));
  // One mismatch a game: the next game starts afresh.
  lines = game;
  lines[5] = replaced(lines[5], "\"hit\":[0", "\"hit\":[1");
  lines.insert(lines.end(), game.begin(), game.end());
  CHECK(io::verify_traces({file.write(lines)}).mismatches == 1);
}

TEST_CASE("a file that is not a trace is rejected with its line", "[golden]") {
  std::vector<std::string> game = lines_of(kTraces);
  game.resize(3);
  const ScratchTrace file;
  const auto refused = [&](std::size_t line, const std::string& from, const std::string& to) {
    std::vector<std::string> lines = game;
    lines[line] = replaced(lines[line], from, to);
    INFO(to);
    CHECK_THROWS_AS(io::verify_traces({file.write(lines)}), core::FileError);
    CHECK_THROWS_WITH(io::verify_traces({file.write(lines)}),
                      Catch::Contains(":" + std::to_string(line + 1) + ": "));
  };
  refused(0, "snakes_3v3", "chess");
  refused(0, "\"height\":10", "\"height\":11");
  refused(0, "\"beans\":[9,20", "\"beans\":[9,9");
  refused(0, "[[123,", "[[124,");
  refused(0, "[[123,103,83]", "[[123,103]");
  refused(0, "\"directions\":[1", "\"directions\":[\"1\"");
  refused(1, "{\"actions\"", "\"actions\"");
  refused(1, "{", "[{");
  refused(1, "\"actions\":[1", "\"actions\":[4");
  refused(1, "\"actions\":[1", "\"actions\":[1.5");
  refused(1, "\"actions\":[1", "\"actions\":[-1");
  refused(1, "\"actions\":[1,", "\"actions\":[");
  refused(1, "\"turned\"", "\"tuned\"");
  refused(1, "[[143,", "[[200,");
  refused(1, "[[143,", "[[4294967296,");
  refused(1, "[[143,", "[[18446744073709551615,");
  refused(1, "[[143,", "[[1e999,");
  refused(1, "[[143,123,103],", "[");
  refused(1, "\"beans\":[9,", "\"beans\":[9,9,");
  refused(1, "\"beans\":[9,", "\"beans\":[null,");
  refused(1, "\"done\":false", "\"done\":0");
  refused(2, "{\"actions\"", "{\"\xff\":1,\"actions\"");
  CHECK_THROWS_AS(io::verify_traces({file.write({game[1]})}), core::FileError);
  CHECK_THROWS_AS(io::verify_traces({file.write({})}), core::FileError);
  CHECK_THROWS_AS(io::verify_traces({"/nowhere/games.jsonl"}), core::FileError);
}

TEST_CASE("a mangled trace is refused or found wrong, whatever the damage", "[property]") {
  std::vector<std::string> game = lines_of(kTraces);
  game.resize(201);
  core::RandomStream random(41, 0, core::Purpose::kTest);
  const ScratchTrace file;
  int refused = 0, found = 0;
  const int n = 500 / boards::kSlowdown;
  for (int k = 0; k < n; ++k) {
    std::vector<std::string> lines = game;
    for (std::uint32_t changes = 1 + random.below(3); changes > 0; --changes) {
      std::string& line = lines[random.below(static_cast<std::uint32_t>(lines.size()))];
      const std::size_t at = random.below(static_cast<std::uint32_t>(line.size()));
      // Digits become digits, so that many files stay JSON; other bytes become anything.
      const bool digit = std::isdigit(static_cast<unsigned char>(line[at])) != 0;
      line[at] = static_cast<char>(digit                  ? '0' + random.below(10)
                                   : random.below(4) == 0 ? random.below(256)
                                                          : line[at]);
      if (random.below(8) == 0) line.erase(at, random.below(5));
      if (random.below(8) == 0) line.insert(at, random.below(2) == 0 ? "-" : "7");
      if (line.empty()) line = "{}";
    }
    try {
      found += io::verify_traces({file.write(lines)}).mismatches > 0 ? 1 : 0;
    } catch (const core::FileError&) {
      ++refused;
    }
  }
  CHECK(refused > n / 10);
  CHECK(found > n / 10);
}

TEST_CASE("an altered observation, action or reward is found and named", "[golden]") {
  const std::vector<std::string> all = lines_of(kEncodings);
  const std::vector<std::string> good(all.begin(), all.begin() + 3);
  const ScratchTrace file, first_game;
  std::vector<std::string> game = lines_of(kTraces);
  game.resize(201);
  const std::string traces = first_game.write(game);
  CHECK(io::verify_encodings(file.write(good), traces).mismatches == 0);
  for (const auto& [from, to, name] : std::vector<std::array<std::string, 3>>{
           {"4.123106", "4.12320", "obs30, snake 0, feature 8"},
           {"\"obs26\":[[6.0,", "\"obs26\":[[7.0,", "obs26, snake 0, feature 0"},
           {"\"level3\":[1", "\"level3\":[0", "level3, snake 3"},
           {"\"evasion\":[1", "\"evasion\":[0", "evasion, snake 3"}}) {
    std::vector<std::string> lines = good;
    lines[0] = replaced(lines[0], from, to);
    const io::EncodingReport report = io::verify_encodings(file.write(lines), traces);
    CHECK(report.states == 3);
    CHECK(report.mismatches == 1);
    CHECK_THAT(report.first_mismatch, Catch::Contains(name));
  }
  std::vector<std::string> lines = good;
  lines[1] = replaced(lines[1], "\"shaped_v1_1\":[[-50.0", "\"shaped_v1_1\":[[-49.9");
  CHECK_THAT(io::verify_encodings(file.write(lines), traces).first_mismatch, Catch::Contains("shaped_v1_1"));
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"trace_game\":0", "\"trace_game\":40"},
                                                        {"\"step\":11", "\"step\":201"},
                                                        {"\"obs30\":[[",
                                                         "\"obs30\":[["
                                                         "1.0,"},
                                                        {"\"level2\":[", "\"level2\":[1,"},
                                                        {"\"level2\":[", "\"level2\":[\"1\","},
                                                        {"\"shaped_2021\"", "\"shaped_2022\""}}) {
    lines = good;
    lines[1] = replaced(lines[1], from, to);
    INFO(to);
    CHECK_THROWS_AS(io::verify_encodings(file.write(lines), traces), core::FileError);
  }
}

TEST_CASE("the plain game plays the recorded games, too", "[golden]") {
  // It takes the recorded directions as actions, which are never reversals, and the recorded beans in place
  // of its own.
  io::LineReader reader(kTraces);
  plain::Game game;
  std::string line;
  const auto numbers = [&line](const std::string& name) {
    std::vector<int> values;
    const std::size_t from = line.find("\"" + name + "\":[") + name.size() + 4;
    std::size_t depth = 1;
    std::string number;
    for (std::size_t at = from; depth > 0; ++at) {
      if (std::isdigit(line[at]) != 0 || line[at] == '-') {
        number += line[at];
        continue;
      }
      if (!number.empty()) values.push_back(std::stoi(number));
      if (line[at] == ']' && !number.empty() && depth == 2)
        values.push_back(-99);  // the end of an inner list
      number.clear();
      depth += line[at] == '[' ? 1 : 0;
      depth -= line[at] == ']' ? 1 : 0;
    }
    return values;
  };
  const auto cell = [](int index) { return plain::Cell{index / 20, index % 20}; };
  const auto snakes_of = [&] {
    std::array<std::deque<plain::Cell>, 6> snakes;
    std::size_t i = 0;
    for (const int value : numbers("snakes")) {
      if (value == -99)
        ++i;
      else
        snakes.at(i).push_back(cell(value));
    }
    return snakes;
  };
  int steps = 0;
  while (reader.next(line)) {
    const std::vector<int> directions = numbers("directions"), bean_list = numbers("beans");
    std::vector<plain::Cell> beans;
    for (const int b : bean_list) beans.push_back(cell(b));
    if (line.find("\"game\"") != std::string::npos) {
      game = plain::Game{};
      game.snakes = snakes_of();
      std::copy(directions.begin(), directions.end(), game.directions.begin());
      game.beans = beans;
      continue;
    }
    std::array<int, 6> actions;
    const std::vector<int> turned = numbers("turned");
    std::copy(turned.begin(), turned.end(), actions.begin());
    const std::vector<plain::Cell> before = game.beans;
    game.play(actions, {0, 0});
    ++steps;
    REQUIRE(game.snakes == snakes_of());
    REQUIRE(std::equal(directions.begin(), directions.end(), game.directions.begin()));
    const std::vector<int> reward = numbers("reward"), hit = numbers("hit");
    REQUIRE(std::equal(reward.begin(), reward.end(), game.reward.begin()));
    REQUIRE(std::equal(hit.begin(), hit.end(), game.hit.begin()));
    REQUIRE(game.done == (line.find("\"done\":true") != std::string::npos));
    // The beans that stay are the front of both lists.
    std::size_t kept = 0;
    for (const plain::Cell& b : before) kept += kept < beans.size() && beans[kept] == b ? 1 : 0;
    REQUIRE(std::equal(beans.begin(), beans.begin() + static_cast<std::ptrdiff_t>(kept), game.beans.begin()));
    game.beans = beans;
  }
  CHECK(steps == 8000);
}

TEST_CASE("lines come out of plain and gzip files alike", "[unit]") {
  const ScratchTrace plain_file, gzip_file;
  const std::string text = "one\r\n\nthree\n" + std::string(200000, 'x') + "\nlast";
  plain_file.write_bytes(text);
  gzFile out = gzopen(gzip_file.path.c_str(), "wb");
  REQUIRE(gzwrite(out, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
  REQUIRE(gzclose(out) == Z_OK);
  const std::vector<std::string> expected = {"one", "", "three", std::string(200000, 'x'), "last"};
  CHECK(lines_of(plain_file.path) == expected);
  CHECK(lines_of(gzip_file.path) == expected);
  CHECK(lines_of(ScratchTrace{}.write_bytes("")).empty());
}

TEST_CASE("a missing, truncated or corrupt file is reported as such", "[unit]") {
  CHECK_THROWS_AS(lines_of("/nowhere/at/all"), core::FileError);
  CHECK_THROWS_AS(lines_of("/"), core::FileError);
  const std::string bytes = bytes_of(kEncodings);
  for (const std::size_t size : {bytes.size() - 1, bytes.size() - 8, bytes.size() / 2, std::size_t{11}}) {
    const ScratchTrace file;
    file.write_bytes(bytes.substr(0, size));
    INFO(size);
    CHECK_THROWS_AS(lines_of(file.path), core::FileError);
    CHECK_THROWS_WITH(lines_of(file.path), Catch::Contains(file.path.string()));
  }
  std::string corrupt = bytes;
  corrupt[bytes.size() / 2] = static_cast<char>(corrupt[bytes.size() / 2] ^ 0x55);
  const ScratchTrace file;
  file.write_bytes(corrupt);
  CHECK_THROWS_AS(lines_of(file.path), core::FileError);
}
