// The reasons that a team gives for its moves.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "../game/boards.hpp"
#include "champion.hpp"
#include "snake_ddp/game/moves.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/play/variation.hpp"

namespace {

using namespace snake_ddp;
using Why = play::Reasons::Kind;

struct Watched {
  std::vector<std::uint64_t> boards;  // hashes, in order
  std::vector<game::State> before;    // of the first game, by step
  std::vector<game::Actions> actions;
  std::vector<play::Reasons> reasons;  // of player a, who is team A, in the first game
};

Watched played(const play::MakeMover& a, bool explain) {
  Watched watched;
  play::MatchOptions options{boards::kSlowdown > 1 ? 1 : 3, 21, false};
  options.watch = [&](std::int64_t number, const game::State& state) {
    watched.boards.push_back(game::hash(state));
    if (number == 0 && !state.done()) watched.before.push_back(state);
  };
  options.on_step = [&](std::int64_t number, const game::Actions& actions, const game::StepResult&,
                        const game::State&) {
    if (number == 0) watched.actions.push_back(actions);
  };
  if (explain) {
    options.on_reasons = [&](std::int64_t number, int team, const play::Reasons& reasons) {
      CHECK(team == 0);  // a script has no reasons
      if (number == 0) watched.reasons.push_back(reasons);
    };
  }
  play::play_match(a, play::scripted(game::Opponent::kTerritory), options);
  return watched;
}

play::SearchSpec spec_of(const char* text) { return play::try_spec(text).value(); }

// The moves with a value, and of these the ones with the most of what the mover chooses by.
std::set<int> best_of(const play::Reasons& reasons, std::size_t snake) {
  const auto weight = [&](std::size_t move) {
    const double worth = reasons.worth[snake][move];
    return std::isnan(worth) ? -1e9 : reasons.kind == Why::kTree ? reasons.visits[snake][move] : worth;
  };
  const double most = std::max({weight(0), weight(1), weight(2), weight(3)});
  std::set<int> moves;
  for (std::size_t move = 0; move < game::kMoves; ++move)
    if (weight(move) == most) moves.insert(static_cast<int>(move));
  return moves;
}

}  // namespace

TEST_CASE("a game that is explained is the same game, and each move made is one of the best that were seen",
          "[property]") {
  const bool slow = boards::kSlowdown > 1;
  const std::map<Why, play::MakeMover> movers = {
      {Why::kValues, champion::bare()},
      {Why::kLook, champion::searching(spec_of(slow ? "look2" : "look4"))},
      {Why::kTree, champion::searching(spec_of(slow ? "puct10" : "puct30"))}};
  for (const auto& [kind, mover] : movers) {
    const Watched plain = played(mover, false), explained = played(mover, true);
    CHECK(plain.boards == explained.boards);
    CHECK(plain.reasons.empty());
    REQUIRE(explained.reasons.size() == explained.actions.size());
    std::size_t searched = 0;
    for (std::size_t k = 0; k < explained.reasons.size(); ++k) {
      const play::Reasons& reasons = explained.reasons[k];
      searched += reasons.kind == kind ? 1 : 0;
      CHECK((reasons.kind == kind || reasons.kind == Why::kValues));
      for (std::size_t i = 0; i < game::kTeamSize; ++i) {
        CHECK(best_of(reasons, i).count(explained.actions[k].of[i]) == 1);
        const unsigned open = game::open_moves(explained.before[k], static_cast<int>(i));
        for (unsigned move = 0; move < game::kMoves; ++move)
          if ((open >> move & 1U) == 0) CHECK(std::isnan(reasons.worth[i][move]));
      }
      CHECK(reasons.line.empty() == (reasons.kind == Why::kValues));
      if (!reasons.line.empty()) {  // it begins with the moves that are made
        for (std::size_t i = 0; i < game::kTeamSize; ++i)
          if (game::fatal_moves(explained.before[k], static_cast<int>(i)) != 15U)
            CHECK(reasons.line[0][i] == explained.actions[k].of[i]);
      }
    }
    CHECK(searched > explained.reasons.size() * 9 / 10);
  }
}

TEST_CASE("a snake that dies on an expected line makes no more moves there", "[unit]") {
  const game::State state = boards::contested();
  play::Variation line(state);
  const game::Actions meet{
      {game::kRight, game::kRight, game::kRight, game::kLeft, game::kRight, game::kRight}};
  for (std::uint32_t k = 0; k < 2; ++k) line.add(meet, play::MoveRandom(1, 2, 1, 0).draws(0, k));
  CHECK((line.moves()[0] == std::array<int, game::kSnakes>{3, 3, 3, 2, 3, 3}));
  CHECK((line.moves()[1] == std::array<int, game::kSnakes>{play::kGone, 3, 3, play::kGone, 3, 3}));
}

TEST_CASE("a tree reports its simulations' values, for each team from its side, and their moves", "[unit]") {
  const std::vector<game::State> some = champion::boards(6, 10);
  play::Evaluator evaluator = champion::evaluator();
  int deep = 0;
  for (const game::State& board : some) {
    play::Leaf leaf;
    evaluator({&board, 1}, {&leaf, 1});
    play::Tree tree(board, leaf, play::MoveRandom(1, 2, board.step(), 0), {});
    play::run({&tree, 1}, std::ref(evaluator), [](std::int64_t done) { return 200 - done; });
    const play::Reasons a = tree.reasons(0), b = tree.reasons(1);
    CHECK((a.line == b.line));  // one tree, one line
    for (int i = 0; i < game::kTeamSize; ++i) {
      const auto k = static_cast<std::size_t>(i);
      int visits = 0;
      for (const int n : a.visits[k]) visits += n;
      CHECK(visits == 200);
      for (int move = 0; move < game::kMoves; ++move) {
        if (tree.visits(i, move) > 0) CHECK(a.worth[k][static_cast<std::size_t>(move)] == tree.mean(i, move));
        if (tree.visits(3 + i, move) > 0)
          CHECK(b.worth[k][static_cast<std::size_t>(move)] == -tree.mean(3 + i, move));
      }
    }
    deep += a.line.size() > 1 ? 1 : 0;
  }
  CHECK(deep > 50);
}
