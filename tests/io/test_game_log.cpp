// Game logs in the platform's format: one that the reference wrote, ours, and what is rejected.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "game/boards.hpp"
#include "io/game_log.hpp"
#include "io/verify_trace.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/position.hpp"
#include "test_data.hpp"

using namespace snake_ddp;
using nlohmann::json;

namespace {

/// A file of this test, gone when it ends.
struct ScratchLog {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("sd_log_" + std::to_string(::getpid()) + "_" + std::to_string(counter++) + ".json");
  static inline int counter = 0;
  ~ScratchLog() { std::filesystem::remove(path); }
  std::string write(const std::string& text) const {
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
};

/// Random moves, so that there are many deaths and reversals.
io::RecordedGame random_game(std::uint64_t seed) {
  game::State state;
  game::PhiloxChance chance(seed, 0);
  game::reset(state, chance);
  io::RecordedGame record = io::begin_record(state);
  record.names = {"one", "two"};
  while (!state.done()) {
    game::Actions actions;
    for (int team = 0; team < 2; ++team)
      game::act(game::Opponent::kLevel0, state, team, actions, seed, static_cast<std::uint64_t>(team));
    game::PhiloxChance step_chance(seed, 0);
    const game::StepResult result = game::step(state, actions, step_chance);
    io::add_step(record, actions, result, state);
  }
  return record;
}

io::RecordedGame only_game(const std::string& path) {
  std::vector<io::RecordedGame> games;
  io::read_games(path, [&](const io::RecordedGame& game) { games.push_back(game); });
  REQUIRE(games.size() == 1);
  return games.front();
}

std::string refusal(const std::string& text) {
  const ScratchLog file;
  try {
    io::read_games(file.write(text), [](const io::RecordedGame&) {});
  } catch (const core::FileError& error) {
    const std::string what = error.what();
    CHECK_THAT(what, Catch::Contains(file.path.string()));
    return what;
  }
  return "no FileError";
}

}  // namespace

TEST_CASE("a log that the reference wrote is played as the reference played it", "[golden]") {
  const std::string path = test_data("reference_log.json.gz");
  const io::TraceReport report = io::verify_traces({path});
  CHECK(report.first_mismatch.empty());
  CHECK(report.games == 1);
  CHECK(report.steps == 200);
  CHECK(report.mismatches == 0);
  const io::RecordedGame game = only_game(path);
  CHECK(game.names == std::array<std::string, 2>{"random", "rl"});
  CHECK(game.steps.at(0).actions[0] == io::kUnknown);  // its run_log.py leaves actions out
}

TEST_CASE("a log of ours has the reference's fields in the reference's shapes", "[golden]") {
  json reference;
  {
    // Read by our reader and written again, the reference's log must be unchanged, except for what it lacks: actions,
    // and the directions after the last step.
    io::RecordedGame game = only_game(test_data("reference_log.json.gz"));
    for (io::RecordedStep& step : game.steps) step.actions.fill(0);
    reference = json::parse(io::game_log_text(game));
  }
  const json ours = json::parse(io::game_log_text(random_game(1)));
  for (const json* log : std::initializer_list<const json*>{&reference, &ours}) {
    CHECK(log->at("game_name") == "snakes_3v3");
    CHECK(log->at("n_player") == 6);
    CHECK(log->at("board_height") == 10);
    CHECK(log->at("board_width") == 20);
    CHECK(log->at("steps").size() == 200);
    for (const char* name :
         {"init_info", "winner", "winner_information", "n_return", "names", "start_time", "end_time"})
      CHECK(log->contains(name));
    CHECK_FALSE(log->contains("truncated"));
  }
  // The contents of the reference's own file.
  CHECK(reference["init_info"]["directions"] == json({"down", "down", "right", "up", "down", "right"}));
  CHECK(reference["init_info"]["snakes_position"][0] == json({{1, 17}, {0, 17}, {9, 17}}));
  CHECK(reference["init_info"]["beans_position"] == json({{4, 4}, {3, 7}, {7, 4}, {0, 1}, {0, 15}}));
  CHECK(reference["winner"] == 2);
  CHECK(reference["winner_information"] == json({1, 0, 1, 0, 1, 0}));
  CHECK(reference["n_return"] == json({1, 0, 1, 0, 1, 0}));
  CHECK(reference["names"] == json({"random", "rl"}));
  CHECK(reference["start_time"] == "2026-11-21 15:19:31");
}

TEST_CASE("one step of a log, written out", "[unit]") {
  game::State state = game::drawn(
      "A<<.................\n"
      "B<<.................\n"
      "C<<.................\n"
      "....................\n"
      "....................\n"
      "....................\n"
      "....................\n"
      "........o.oo........\n"
      "...........o.o......\n"
      "..D<<....E<<....F<<.\n");
  io::RecordedGame record = io::begin_record(state);
  record.start_time = record.end_time = "then";
  record.names = {"a", "b"};
  game::RecordedChance chance;
  chance.beans = nullptr;
  const game::Actions up{{0, 0, 0, 2, 0, 2}};
  const game::StepResult result = game::step(state, up, chance);
  io::add_step(record, up, result, state);
  record.cut_off = true;
  record.start_time = record.end_time = "then";
  CHECK(
      io::game_log_text(record) ==
      R"({"game_name":"snakes_3v3","n_player":6,"board_height":10,"board_width":20,"init_info":{)"
      R"("snakes_position":[[[0,0],[0,1],[0,2]],[[1,0],[1,1],[1,2]],[[2,0],[2,1],[2,2]],)"
      R"([[9,2],[9,3],[9,4]],[[9,9],[9,10],[9,11]],[[9,16],[9,17],[9,18]]],)"
      R"("beans_position":[[7,8],[7,10],[7,11],[8,11],[8,13]],)"
      R"("directions":["left","left","left","left","left","left"]},"start_time":"then","mode":"terminal",)"
      R"("steps":[{"info_before":{"directions":["left","left","left","left","left","left"]},)"
      R"("joint_action":[[[1,0,0,0]],[[1,0,0,0]],[[1,0,0,0]],[[0,0,1,0]],[[1,0,0,0]],[[0,0,1,0]]],)"
      R"("reward":[0,0,0,0,0,0],"info_after":{"snakes_position":[)"
      R"([[9,0],[0,0],[0,1]],[[0,3],[0,2],[1,2]],[[0,5],[0,4],[1,4]],)"
      R"([[9,1],[9,2],[9,3]],[[8,9],[9,9],[9,10]],[[9,15],[9,16],[9,17]]],)"
      R"("beans_position":[[7,8],[7,10],[7,11],[8,11],[8,13]],"hit":[0,1,1,0,0,0],"score":[0,0,0,0,0,0]}}],)"
      R"("winner":2,"winner_information":[0,0,0,0,0,0],"n_return":[0,0,0,0,0,0],"names":["a","b"],)"
      R"("end_time":"then","truncated":true})"
      "\n");
}

TEST_CASE("games that we record are read back as they were and verify, with actions or without",
          "[property]") {
  const int games = boards::kSlowdown > 1 ? 5 : 20;
  int reversed = 0, died = 0;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(games); ++seed) {
    const io::RecordedGame game = random_game(seed);
    json log = json::parse(io::game_log_text(game));
    const ScratchLog file;
    const io::RecordedGame back = only_game(file.write(log.dump()));
    REQUIRE(back.steps.size() == game.steps.size());
    CHECK(back.names == game.names);
    for (std::size_t k = 0; k < game.steps.size(); ++k) {
      const io::RecordedStep &a = game.steps[k], &b = back.steps[k];
      REQUIRE(a.after.snakes == b.after.snakes);
      REQUIRE(a.after.beans == b.after.beans);
      REQUIRE((a.actions == b.actions && a.reward == b.reward && a.hit == b.hit));
      if (k + 1 < game.steps.size()) REQUIRE(a.after.directions == b.after.directions);
      for (std::size_t i = 0; i < 6; ++i) {
        reversed += a.actions[i] != a.turned[i] ? 1 : 0;
        died += a.hit[i];
      }
    }
    for (const bool with_actions : {true, false}) {
      if (!with_actions)
        for (json& step : log["steps"]) step.erase("joint_action");
      const io::TraceReport report = io::verify_traces({file.write(log.dump(2))});  // over many lines
      INFO(report.first_mismatch);
      CHECK(report.mismatches == 0);
      CHECK(report.steps == static_cast<std::int64_t>(game.steps.size()));
    }
  }
  CHECK(reversed > 50 * games);
  CHECK(died > 5 * games);
}

TEST_CASE("explanations are read back as they were, to four decimals", "[unit]") {
  io::RecordedGame game = random_game(2);
  play::Reasons tree{play::Reasons::Kind::kTree}, values{play::Reasons::Kind::kValues};
  tree.worth[1] = {0.5, play::kClosed, -1.25, 3.0};
  tree.visits[1] = {1, 0, 7, 92};
  tree.line = {{0, 1, 2, 3, 0, 1}, {play::kGone, 1, 2, 3, 0, play::kGone}};
  values.worth[2] = {0.12344, 0.0, play::kClosed, play::kClosed};
  game.steps[3].reasons = {tree, {}};
  game.steps[4].reasons = {tree, values};
  const ScratchLog file;
  const std::string text = io::game_log_text(game);
  const json steps = json::parse(text)["steps"];
  CHECK_FALSE(steps[2].contains("explanation"));
  CHECK(steps[3]["explanation"][1].is_null());
  CHECK(steps[3]["explanation"][0]["moves"][1] == json({0.5, nullptr, -1.25, 3.0}));
  CHECK(steps[4]["explanation"][1]["moves"][2][0] == 0.1234);
  CHECK_FALSE(steps[4]["explanation"][1].contains("line"));
  const io::RecordedGame back = only_game(file.write(text));
  CHECK(back.steps[2].reasons[0].kind == play::Reasons::Kind::kNone);
  CHECK(back.steps[4].reasons[0].visits == tree.visits);
  CHECK((back.steps[4].reasons[0].line == tree.line));
  CHECK(back.steps[4].reasons[1].kind == play::Reasons::Kind::kValues);
  CHECK(io::game_log_text(back) == text);
  CHECK(io::verify_traces({file.write(text)}).mismatches == 0);
  const auto altered_at = [&](const char* pointer, const json& value) {
    json altered = json::parse(text);
    altered[json::json_pointer(pointer)] = value;
    return refusal(altered.dump());
  };
  CHECK_THAT(altered_at("/steps/4/explanation/0/kind", "guess"),
             Catch::Contains("step 5: ") && Catch::Contains("kind"));
  CHECK_THAT(altered_at("/steps/4/explanation/0/moves/1/0", "up"), Catch::Contains("\"explanation\""));
  CHECK_THAT(altered_at("/steps/4/explanation/0/line/1/2", 4), Catch::Contains("\"explanation\""));
}

TEST_CASE("any altered field of a log is found and named", "[unit]") {
  const json log = json::parse(io::game_log_text(random_game(3)));
  const auto verdict = [](const json& altered) {
    const ScratchLog file;
    const io::TraceReport report = io::verify_traces({file.write(altered.dump())});
    CHECK(report.mismatches == 1);
    return report.first_mismatch;
  };
  const auto at = [&log](const char* pointer, const json& value) {
    json altered = log;
    altered.at(json::json_pointer(pointer)) = value;
    return altered;
  };
  std::size_t lived = 0;  // a step after which all six live, so that each body shows its direction
  while (log["steps"][lived]["info_after"]["hit"] != json({0, 0, 0, 0, 0, 0})) ++lived;
  const std::string step = "/steps/" + std::to_string(lived);
  const std::string named = "game 0, step " + std::to_string(lived + 1) + ", ";
  const json& moved = log["steps"][lived]["info_after"]["snakes_position"];
  CHECK_THAT(verdict(at((step + "/info_after/hit/4").c_str(), 1)), Catch::Contains(named + "hit"));
  CHECK_THAT(verdict(at((step + "/reward/2").c_str(), 7)), Catch::Contains(named + "reward"));
  CHECK_THAT(verdict(at((step + "/info_after/score/2").c_str(), 7)), Catch::Contains(named + "score"));
  CHECK_THAT(verdict(at((step + "/info_after/snakes_position/1/2").c_str(), moved[1][0])),
             Catch::Contains(named + "snakes[1]"));
  CHECK_THAT(verdict(at((step + "/info_after/beans_position/0").c_str(), {0, 0})), Catch::Contains("beans"));
  CHECK_THAT(verdict(at("/n_return/5", 100)), Catch::Contains("step 200, n_return"));
  const std::string was = log["steps"][lived + 1]["info_before"]["directions"][0];
  CHECK_THAT(verdict(at(("/steps/" + std::to_string(lived + 1) + "/info_before/directions/0").c_str(),
                        was == "up" ? "down" : "up")),
             Catch::Contains(named + "directions"));
  json cut = log;
  cut["steps"].erase(150);
  CHECK_THAT(verdict(cut), Catch::Contains("step 150, directions"));
  cut = log;
  cut["steps"].erase(199);
  CHECK_THAT(verdict(cut), Catch::Contains("step 199, done"));
  cut.erase("n_return");
  cut["truncated"] = true;
  const ScratchLog file;
  CHECK(io::verify_traces({file.write(cut.dump())}).mismatches == 0);
}

TEST_CASE("a file that is not a log is rejected with the place and the field", "[unit]") {
  const json log = json::parse(io::game_log_text(random_game(2)));
  const std::string text = log.dump();
  const auto altered = [&log](const char* pointer, const json& value) {
    json other = log;
    other[json::json_pointer(pointer)] = value;
    return refusal(other.dump());
  };
  const auto without = [&log](const char* name) {
    json other = log;
    other.erase(name);
    return refusal(other.dump());
  };
  for (const std::size_t size : {std::size_t{1}, std::size_t{100}, text.size() / 2, text.size() - 1})
    CHECK_THAT(refusal(text.substr(0, size)), Catch::Contains(":1: not JSON"));
  CHECK_THAT(refusal(log.dump(1).substr(0, 3000)), Catch::Contains("not JSON"));
  CHECK_THAT(refusal(""), Catch::Contains("no game in this file"));
  CHECK_THAT(refusal(" \n\n"), Catch::Contains("no game in this file"));
  CHECK_THAT(refusal("[1]"), Catch::Contains("not a JSON object"));
  CHECK_THAT(refusal("{}"), Catch::Contains("neither a game log"));
  CHECK_THAT(refusal(text + "\n{\"game_name\""), Catch::Contains(":2: not JSON"));
  CHECK_THAT(refusal("\xff\xfe\x01"), Catch::Contains("not JSON"));
  CHECK_THAT(refusal(std::string(100000, '[')), Catch::Contains("not JSON"));

  CHECK_THAT(altered("/game_name", "snakes_1v1"), Catch::Contains("\"snakes_1v1\", not \"snakes_3v3\""));
  CHECK_THAT(altered("/board_height", 6), Catch::Contains("\"board_height\": 6 is not an integer 10..10"));
  CHECK_THAT(altered("/board_width", 8), Catch::Contains("\"board_width\""));
  CHECK_THAT(altered("/n_player", 5), Catch::Contains("\"n_player\""));
  CHECK_THAT(altered("/names", {"a"}), Catch::Contains("\"names\" has 1 element, not 2"));
  CHECK_THAT(altered("/names/1", true), Catch::Contains("\"names\": true is not a name"));
  CHECK_THAT(altered("/start_time", json::array()), Catch::Contains("\"start_time\""));
  CHECK_THAT(altered("/truncated", 1), Catch::Contains("\"truncated\""));
  CHECK_THAT(altered("/n_return", {1, 2}), Catch::Contains("\"n_return\" has 2 elements, not 6"));
  CHECK_THAT(altered("/init_info", "{'snakes_position': []}"), Catch::Contains("field \"init_info\": "));
  CHECK_THAT(altered("/init_info/directions/0", "north"), Catch::Contains("\"north\" is not up, down"));
  CHECK_THAT(altered("/init_info/snakes_position/0/1", {0, 0}), Catch::Contains("not the start of a game"));
  CHECK_THAT(altered("/steps", "none"), Catch::Contains("\"steps\": \"none\" is not a list"));
  CHECK_THAT(altered("/steps/16", 5), Catch::Contains("step 17: no object"));
  CHECK_THAT(altered("/steps/16/reward", {0, 0, 0, 0, 0, 0.5}),
             Catch::Contains("step 17: field \"reward\": 0.5"));
  CHECK_THAT(altered("/steps/16/joint_action/3", {{1, 1, 0, 0}}),
             Catch::Contains("step 17: field \"joint_action\""));
  CHECK_THAT(altered("/steps/16/joint_action/3", {{1, 0}}),
             Catch::Contains("does not select one of four actions"));
  CHECK_THAT(altered("/steps/16/info_after/snakes_position/2", {{10, 4}}),
             Catch::Contains("step 17: field \"snakes_position\": 10 is not an integer 0..9"));
  CHECK_THAT(altered("/steps/16/info_after/snakes_position/2", {{1, 2, 3}}),
             Catch::Contains("3 elements, not 2"));
  CHECK_THAT(altered("/steps/16/info_after/beans_position", json::array({json::array({"0", 4})})),
             Catch::Contains("\"beans_position\": \"0\""));
  CHECK_THAT(altered("/steps/16/info_after/hit", {0, 0, 0, 0, 0, 2}),
             Catch::Contains("step 17: field \"hit\""));
  CHECK_THAT(altered("/steps/0/info_before/directions", log["steps"][50]["info_before"]["directions"]),
             Catch::Contains("step 1: "));
  for (const char* name : {"n_player", "board_width", "init_info", "steps"})
    CHECK_THAT(without(name), Catch::Contains(std::string("\"") + name + "\" is missing"));
  CHECK_THAT(altered("/names", std::string(100000, 'x')), Catch::Contains("..."));
  CHECK(altered("/names", std::string(100000, 'x')).size() < 400);
}

TEST_CASE("lists that a log stores as strings are read", "[unit]") {
  const io::RecordedGame game = random_game(5);
  json log = json::parse(io::game_log_text(game));
  log["n_return"] = log["n_return"].dump();
  for (json& step : log["steps"]) {
    step["joint_action"] = step["joint_action"].dump();
    step["reward"] = step["reward"].dump();
  }
  const ScratchLog file;
  CHECK(io::verify_traces({file.write(log.dump())}).mismatches == 0);
  log["steps"][3]["reward"] = "0, 0";
  CHECK_THAT(refusal(log.dump()), Catch::Contains("step 4: field \"reward\""));
}

TEST_CASE("games of a service's answer are read like those of a log", "[golden]") {
  for (const char* const name : {"platform_response.json.gz", "platform_response_3_steps.json"}) {
    const io::RecordedGame game = only_game(test_data(name));
    CHECK(game.names == std::array<std::string, 2>{"first", "second"});
    CHECK(game.start_time == "2021-12-03 22:35:13.161712");
    // No snake died in the last step.
    for (const int direction : game.steps.back().after.directions) CHECK(direction != io::kUnknown);
    const io::TraceReport report = io::verify_traces({test_data(name)});
    INFO(report.first_mismatch);
    CHECK(report.mismatches == 0);
    const bool whole = game.steps.size() == 200;
    CHECK((whole || game.steps.size() == 3));
    CHECK(game.cut_off == !whole);  // without a result
  }
}

TEST_CASE("numbers among a log's texts are written as Python writes them", "[unit]") {
  std::string log = io::game_log_text(random_game(4));
  const ScratchLog file;
  for (const auto& [number, text] :
       {std::pair("18446744073709551615", "18446744073709551615"),
        std::pair("18446744073709551616", "1.8446744073709552e+19"), std::pair("1e15", "1000000000000000.0"),
        std::pair("1e16", "1e+16"), std::pair("-0.0", "-0.0"), std::pair("0.00001", "1e-05"),
        std::pair("1638542151.5", "1638542151.5")}) {
    const std::size_t at = log.find(R"("end_time":)") + 11;
    log.replace(at, log.find_first_of(",}", at) - at, number);
    CHECK(only_game(file.write(log)).end_time == text);
  }
}

TEST_CASE("a fault within an answer is named with its line", "[unit]") {
  const std::string log = io::game_log_text(random_game(4));
  std::string wrong = log;
  wrong.replace(wrong.find("\"hit\":[0"), 8, "\"hit\":[7");
  CHECK_THAT(refusal("{\"data\":\n[\n" + log + ",\n" + wrong + "]}"),
             Catch::Contains(":5: step 1: field \"hit\": 7"));
  CHECK_THAT(refusal("[\n" + log + ",\n" + wrong + "]"), Catch::Contains(":4: step 1: field \"hit\": 7"));
  CHECK_THAT(refusal(log + "{"), Catch::Contains(":2: not JSON: the file ends within"));
  CHECK_THAT(refusal("\n[" + log), Catch::Contains(":2: not JSON: the file ends within the list"));
  CHECK_THAT(refusal(log + "]"), Catch::Contains(":2: not JSON"));
  CHECK_THAT(refusal("{\"OK\":false,\"message\":\"no such game\"}"), Catch::Contains("\"no such game\""));
  CHECK_THAT(refusal("{\"a\":1,\"data\":" + log + ",\"a\":1}"), Catch::Contains("key \"a\" is there twice"));
  CHECK_THAT(refusal(R"({"a":"\u0000","data":)" + log + "}"), Catch::Contains("NUL"));
  // Depth and size are limited also within texts.
  CHECK_THAT(refusal(json({{"data", std::string(100'000, '[') + std::string(100'000, ']')}}).dump()),
             Catch::Contains("neither a game log"));
}

TEST_CASE("a name that is not UTF-8 does not spoil a log", "[unit]") {
  io::RecordedGame game = random_game(6);
  game.names = {"a\xff", "</script><b>\"\n"};
  const ScratchLog file;
  const io::RecordedGame back = only_game(file.write(io::game_log_text(game)));
  CHECK(back.names == std::array<std::string, 2>{"a\xef\xbf\xbd", "</script><b>\"\n"});
}
