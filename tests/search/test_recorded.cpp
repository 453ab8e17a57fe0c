// Evaluations of recorded boards by look4 and puct48x8, for other programs that search the same way:
// tests/data/look_moves.jsonl.gz and tests/data/puct_visits.jsonl.gz.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "champion.hpp"
#include "recorded_board.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/records/atomic_file.hpp"
#include "snake_ddp/records/lines.hpp"

namespace {

using namespace snake_ddp;
using nlohmann::ordered_json;

constexpr const char *kLooks = "look_moves.jsonl.gz", *kTrees = "puct_visits.jsonl.gz";
constexpr std::size_t kBoards = 600, kSamples = 4;
constexpr std::int64_t kSimulations = 48;
constexpr int kLeaves = 8;

ordered_json json_of(const search::Question& q, const search::Answer& a) {
  ordered_json samples = ordered_json::array(), scores = ordered_json::array();
  for (const search::Sample& s : q.samples)
    samples.push_back({{"foes", s.foes}, {"turn", s.draws.turn}, {"bean", s.draws.bean}});
  for (const double score : a.scores) scores.push_back(std::round(score * 1e5) / 1e5);
  return {{"candidates", q.candidates},
          {"samples", samples},
          {"scores", scores},
          {"moves", q.candidates[a.best]}};
}

ordered_json board_of(const game::State& state) {
  const game::Position p = game::position_of(state);
  return {{"snakes", p.snakes}, {"directions", p.directions}, {"beans", p.beans}, {"step", p.step}};
}

// A line: the board as in recorded games, then each team's evaluation of it.
ordered_json line_of(const game::State& state, std::uint64_t number, search::Evaluator& evaluator) {
  ordered_json line = board_of(state);
  search::Leaf leaf;
  evaluator({&state, 1}, {&leaf, 1});
  for (const int team : {0, 1}) {
    const search::Question q{state, team, search::candidates_of(leaf, team),
                             search::samples_of(leaf, team, kSamples, 0.2F, {1, number, state.step(), team})};
    line["teams"].push_back(json_of(q, search::look({&q, 1}, 0.99, std::ref(evaluator))[0]));
  }
  return line;
}

// A line: the board, and how often each snake made each move first in the tree that grows with Dice(1, number, step, 0).
ordered_json tree_line_of(const game::State& state, std::uint64_t number, search::Evaluator& evaluator) {
  ordered_json line = board_of(state);
  search::Leaf leaf;
  evaluator({&state, 1}, {&leaf, 1});
  search::TreeOptions options;
  options.leaves = kLeaves;
  search::Tree tree(state, leaf, {1, number, state.step(), 0}, options);
  search::run({&tree, 1}, std::ref(evaluator), [](std::int64_t done) { return kSimulations - done; });
  for (int snake = 0; snake < game::kSnakes; ++snake)
    for (int move = 0; move < game::kMoves; ++move) line["visits"][snake].push_back(tree.visits(snake, move));
  for (const int team : {0, 1}) line["moves"].push_back(tree.best(team));
  return line;
}

// Writes a new file: SD_RECORD=FILE test_search "NAME"; then gzip -9n FILE.
void record(ordered_json (*line)(const game::State&, std::uint64_t, search::Evaluator&)) {
  const char* file = std::getenv("SD_RECORD");
  REQUIRE(file != nullptr);
  std::vector<game::State> boards = champion::boards(20, 20);
  const std::vector<game::State> random = champion::boards(20, 20, agents::Opponent::kLevel0);
  boards.resize(kBoards / 2);
  boards.insert(boards.end(), random.begin(), random.begin() + kBoards / 2);
  search::Evaluator evaluator = champion::evaluator();
  std::string text;
  for (std::size_t k = 0; k < boards.size(); ++k) text += line(boards[k], k, evaluator).dump() + "\n";
  records::write_file_atomically(file, text);
}

}  // namespace

TEST_CASE("looks are recorded", "[.][record]") { record(line_of); }

TEST_CASE("trees are recorded", "[.][record]") { record(tree_line_of); }

TEST_CASE("looks at recorded boards have the recorded scores and moves", "[golden]") {
  search::Evaluator evaluator = champion::evaluator();
  std::size_t boards = 0, searched = 0, changed = 0;
  records::LineReader reader(test_data(kLooks));
  for (std::string text; reader.next(text);) {
    const nlohmann::json line = nlohmann::json::parse(text);
    const game::State state = tests::recorded_board(line);
    const nlohmann::json now = line_of(state, boards++, evaluator);
    for (std::size_t team = 0; team < 2; ++team) {
      const nlohmann::json &was = line.at("teams")[team], &is = now.at("teams")[team];
      REQUIRE(is.at("candidates") == was.at("candidates"));
      REQUIRE(is.at("samples") == was.at("samples"));
      const auto then = was.at("scores").get<std::vector<double>>(),
                 scores = is.at("scores").get<std::vector<double>>();
      REQUIRE(scores.size() == then.size());
      for (std::size_t c = 0; c < scores.size(); ++c) REQUIRE(scores[c] == Approx(then[c]).margin(1e-4));
      REQUIRE(is.at("moves") == was.at("moves"));
      ++searched;
      changed += was.at("moves") != was.at("candidates")[0];
    }
  }
  CHECK(boards == kBoards);
  CHECK(searched == 2 * kBoards);
  CHECK(changed > searched / 20);
}

TEST_CASE("trees on recorded boards grow as recorded", "[golden]") {
  search::Evaluator evaluator = champion::evaluator();
  constexpr std::size_t kEvery = 5;  // under ASan a tree takes a while
  std::size_t boards = 0, grown = 0, same = 0, changed = 0;
  records::LineReader reader(test_data(kTrees));
  for (std::string text; reader.next(text); ++boards) {
    if (boards % kEvery != 0) continue;
    ++grown;
    const nlohmann::json line = nlohmann::json::parse(text);
    const game::State state = tests::recorded_board(line);
    const nlohmann::json now = tree_line_of(state, boards, evaluator);
    same += now.at("visits") == line.at("visits") ? 1 : 0;
    search::Leaf leaf;
    evaluator({&state, 1}, {&leaf, 1});
    for (const int team : {0, 1})
      changed += now.at("moves")[team] != nlohmann::json(search::bare_moves(leaf, team)) ? 1 : 0;
  }
  CHECK(boards == kBoards);
  // On another kind of processor the products' last bits differ, which can change a tree where two moves are nearly
  // equal.
  CHECK(same > grown - grown / 20);
  CHECK(changed > grown / 10);
}
