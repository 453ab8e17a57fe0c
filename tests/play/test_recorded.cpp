// Trees of puct48x8 on recorded boards, which the search of exported submissions grows, too
// (tests/app/test_search_submission.py): tests/data/puct_visits.jsonl.gz.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "champion.hpp"
#include "io/atomic_file.hpp"
#include "io/lines.hpp"
#include "recorded_board.hpp"
#include "snake_ddp/game/position.hpp"

namespace {

using namespace snake_ddp;
using nlohmann::ordered_json;

constexpr std::size_t kBoards = 600;
constexpr std::int64_t kSimulations = 48;
constexpr int kLeaves = 8;

// A line: the board, and how often each snake made each move first in the tree that grows with MoveRandom(1, number, step, 0).
ordered_json line_of(const game::State& state, std::uint64_t number, play::Evaluator& evaluator) {
  const game::Position p = game::position_of(state);
  ordered_json line = {
      {"snakes", p.snakes}, {"directions", p.directions}, {"beans", p.beans}, {"step", p.step}};
  play::Leaf leaf;
  evaluator({&state, 1}, {&leaf, 1});
  play::TreeOptions options;
  options.leaves = kLeaves;
  play::Tree tree(state, leaf, {1, number, state.step(), 0}, options);
  play::run({&tree, 1}, std::ref(evaluator), [](std::int64_t done) { return kSimulations - done; });
  for (int snake = 0; snake < game::kSnakes; ++snake)
    for (int move = 0; move < game::kMoves; ++move) line["visits"][snake].push_back(tree.visits(snake, move));
  for (const int team : {0, 1}) line["moves"].push_back(tree.best(team));
  return line;
}

}  // namespace

// Writes a new file: SD_RECORD=FILE test_play "trees are recorded"; then gzip -9n FILE.
TEST_CASE("trees are recorded", "[.][record]") {
  const char* file = std::getenv("SD_RECORD");
  REQUIRE(file != nullptr);
  std::vector<game::State> boards = champion::boards(20, 20);
  const std::vector<game::State> random = champion::boards(20, 20, game::Opponent::kLevel0);
  boards.resize(kBoards / 2);
  boards.insert(boards.end(), random.begin(), random.begin() + kBoards / 2);
  play::Evaluator evaluator = champion::evaluator();
  std::string text;
  for (std::size_t k = 0; k < boards.size(); ++k) text += line_of(boards[k], k, evaluator).dump() + "\n";
  io::write_file_atomically(file, text);
}

TEST_CASE("trees on recorded boards grow as recorded", "[golden]") {
  play::Evaluator evaluator = champion::evaluator();
  constexpr std::size_t kEvery = 5;  // under ASan a tree takes a while
  std::size_t boards = 0, grown = 0, same = 0, changed = 0;
  io::LineReader reader(test_data("puct_visits.jsonl.gz"));
  for (std::string text; reader.next(text); ++boards) {
    if (boards % kEvery != 0) continue;
    ++grown;
    const nlohmann::json line = nlohmann::json::parse(text);
    const game::State state = tests::recorded_board(line);
    const nlohmann::json now = line_of(state, boards, evaluator);
    same += now.at("visits") == line.at("visits") ? 1 : 0;
    play::Leaf leaf;
    evaluator({&state, 1}, {&leaf, 1});
    for (const int team : {0, 1})
      changed += now.at("moves")[team] != nlohmann::json(play::bare_moves(leaf, team)) ? 1 : 0;
  }
  CHECK(boards == kBoards);
  // On another kind of processor the products' last bits differ, which can change a tree where two moves are nearly
  // equal.
  CHECK(same > grown - grown / 20);
  CHECK(changed > grown / 10);
}
