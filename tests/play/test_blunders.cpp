// The cost of a game's moves.
#include <catch2/catch.hpp>

#include "champion.hpp"
#include "snake_ddp/game/moves.hpp"
#include "snake_ddp/play/blunders.hpp"

using namespace snake_ddp;

namespace {

std::vector<play::Turn> turns_of_a_game() {
  std::vector<play::Turn> turns;
  std::vector<game::State> boards;
  play::MatchOptions options{1, 31, false};
  options.watch = [&](std::int64_t, const game::State& state) { boards.push_back(state); };
  options.on_step = [&](std::int64_t, const game::Actions& actions, const game::StepResult&,
                        const game::State&) {
    play::Turn& turn = turns.emplace_back();
    std::copy(std::begin(actions.of), std::end(actions.of), turn.played.begin());
  };
  play::play_match(champion::bare(), champion::bare(), options);
  for (std::size_t k = 0; k < turns.size(); ++k) turns[k].board = boards[k];
  return turns;
}

std::vector<play::Loss> losses(const std::vector<play::Turn>& turns) {
  const play::Searcher player{champion::net(), {}, play::try_spec("puct60").value()};
  play::Evaluator evaluator = champion::evaluator();
  return play::losses_of(player, std::ref(evaluator), turns);
}

}  // namespace

TEST_CASE("a long snake that runs into a body though it could go on has made the game's worst move",
          "[unit]") {
  std::vector<play::Turn> turns = turns_of_a_game();
  std::size_t planted = 0;
  int snake = 0, fatal = 0;
  for (std::size_t k = 40; k < 160 && planted == 0; ++k) {
    const game::State& board = turns[k].board;
    for (int i = 0; i < game::kSnakes; ++i) {
      const unsigned bits = game::fatal_moves(board, i);
      for (int move = 0; move < game::kMoves; ++move) {
        const bool back = move == (board.direction(i) ^ 1);
        if (board.length(i) < 12 || back || (bits >> move & 1U) == 0 || bits == 15U) continue;
        planted = k;
        snake = i;
        fatal = move;
      }
    }
  }
  REQUIRE(planted > 0);
  // A few boards around it, and of them only the planted one is known to be bad.
  const std::vector<play::Turn> some(turns.begin() + static_cast<std::ptrdiff_t>(planted) - 4,
                                     turns.begin() + static_cast<std::ptrdiff_t>(planted) + 5);
  const std::vector<play::Loss> before = losses(some);
  std::vector<play::Turn> worse = some;
  worse[4].played[static_cast<std::size_t>(snake)] = fatal;
  const std::vector<play::Loss> after = losses(worse);
  REQUIRE_FALSE(after.empty());
  const play::Loss& worst = after.front();
  CHECK(worst.step == static_cast<int>(planted));
  CHECK(worst.snake == snake);
  CHECK(worst.played == fatal);
  CHECK((game::fatal_moves(worse[4].board, snake) >> worst.better & 1U) == 0);
  CHECK(worst.points() > 5.0);
  CHECK((before.empty() || before.front().points() < worst.points()));
  for (std::size_t k = 1; k < after.size(); ++k) CHECK(after[k].points() <= after[k - 1].points());
  CHECK(after.back().points() > 0.0);
  // The same again with unknown moves, which are not judged.
  const std::vector<play::Loss> again = losses(worse);
  REQUIRE(again.size() == after.size());
  for (std::size_t k = 0; k < after.size(); ++k) CHECK(again[k].points() == after[k].points());
  for (play::Turn& turn : worse) turn.played.fill(play::kUnknownMove);
  CHECK(losses(worse).empty());
}
