#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "../game/boards.hpp"
#include "champion.hpp"
#include "snake_ddp/game/moves.hpp"
#include "snake_ddp/game/position.hpp"

namespace {

using namespace snake_ddp;

// Snake 0 far from all others and from beans: all moves are equally good.
game::State snake_alone() {
  return boards::top(
      "....................\n"
      "...........A........\n"
      "...........^........\n"
      "...........^........\n"
      "....................\n");
}

// Any move that is not certain death; boards are worth what team A leads by, so that only what is gained counts.
void by_score(std::span<const game::State> boards, std::span<play::Leaf> leaves) {
  for (std::size_t k = 0; k < boards.size(); ++k) {
    leaves[k] = {};
    for (int i = 0; i < game::kSnakes; ++i)
      leaves[k].open[i] = static_cast<std::uint8_t>(game::open_moves(boards[k], i));
  }
}

play::Tree grown(const game::State& state, int simulations, play::TreeOptions options = {},
                 const play::Evaluate& evaluate = by_score) {
  play::Leaf leaf;
  evaluate({&state, 1}, {&leaf, 1});
  play::Tree tree(state, leaf, play::MoveRandom(1, 2, state.step(), 0), options);
  play::run({&tree, 1}, evaluate, [&](std::int64_t done) { return simulations - done; });
  return tree;
}

}  // namespace

TEST_CASE("a tree finds beans that are several steps away", "[unit]") {
  // All moves are equally good for one step. Two steps to the left there is a bean for A.
  const game::State state = snake_alone();
  game::Position position = game::position_of(state);
  position.beans = {game::kCols + 9};
  const play::Tree tree = grown(game::make_state(position), 2000);
  CHECK(tree.simulations() == 2000);
  CHECK(tree.best(0)[0] == game::kLeft);
  CHECK(tree.mean(0, game::kLeft) > tree.mean(0, game::kRight));
  int visits = 0;
  for (int move = 0; move < game::kMoves; ++move) visits += tree.visits(0, move);
  CHECK(visits == 2000);
  CHECK(tree.visits(0, game::kDown) == 0);  // back
}

TEST_CASE("a long snake leaves the cell that a short foe can contest, and the foe goes there", "[unit]") {
  // A can go straight on only where D may come, too, or away. Meeting costs A three points and D none.
  const game::State state = boards::contested();
  const play::Tree tree = grown(state, 3000);
  CHECK(tree.best(0)[0] != game::kRight);
  CHECK(tree.visits(0, game::kRight) < 1000);
  CHECK(tree.mean(0, game::kRight) < tree.mean(0, game::kUp));
  CHECK(tree.best(1)[0] == game::kLeft);
}

TEST_CASE("one simulation goes where the network prefers, more where the values lead", "[unit]") {
  const game::State state = champion::boards(1, 4).back();
  play::Evaluator evaluator = champion::evaluator();
  play::Leaf leaf;
  evaluator({&state, 1}, {&leaf, 1});
  for (const int team : {0, 1})
    CHECK(grown(state, 1, {}, std::ref(evaluator)).best(team) == play::bare_moves(leaf, team));
  // With a value that is 1 where snake 0 is in the board's upper half, it goes there.
  int asked = 0;
  const auto upper = [&](std::span<const game::State> boards, std::span<play::Leaf> leaves) {
    by_score(boards, leaves);
    for (std::size_t k = 0; k < boards.size(); ++k, ++asked)
      leaves[k].value = game::row_of(boards[k].head(0)) < 2 ? 1.0F : 0.0F;
  };
  const game::State edge = boards::top(
      "....................\n"
      "....................\n"
      "..>>A...............\n"
      "....................\n"
      "....................\n");
  play::TreeOptions options;
  options.c_puct = 0.2F;  // more, and 300 simulations are too few for moves of nearly the same value
  const play::Tree tree = grown(edge, 300, options, upper);
  CHECK(tree.best(0)[0] == game::kUp);
  CHECK(asked == 301);
}

TEST_CASE("leads are discounted on their way up, and a finished game is worth nothing", "[unit]") {
  // Both teams' snakes have one step left: the value of a node, 7, must not show.
  game::State state = snake_alone();
  const auto seven = [](std::span<const game::State> boards, std::span<play::Leaf> leaves) {
    by_score(boards, leaves);
    for (play::Leaf& leaf : leaves) leaf.value = 7.0F;
  };
  play::TreeOptions options;
  options.gamma = 0.5;
  CHECK(grown(state, 1, options, seven).mean(0, game::kUp) == Approx(3.5));
  state.steps = game::kMaxSteps;
  const play::Tree last = grown(state, 40, options, seven);
  CHECK(last.simulations() == 40);
  for (const int move : {game::kUp, game::kLeft, game::kRight}) {
    if (last.visits(0, move) > 0) CHECK(last.mean(0, move) == Approx(0.0).margin(1e-9));
  }
}

TEST_CASE("trees side by side grow as they do alone", "[property]") {
  const std::vector<game::State> boards = champion::boards(2, 5);
  play::Evaluator evaluator = champion::evaluator();
  std::vector<play::Leaf> leaves(boards.size());
  evaluator(boards, leaves);
  play::TreeOptions options;
  options.leaves = GENERATE(1, 7);
  const auto tree_of = [&](std::size_t k) {
    return play::Tree(boards[k], leaves[k], play::MoveRandom(1, k, boards[k].step(), 0), options);
  };
  std::vector<play::Tree> together;
  for (std::size_t k = 0; k < boards.size(); ++k) together.push_back(tree_of(k));
  const auto left = [](std::int64_t done) { return 30 - done; };
  play::run(together, std::ref(evaluator), left);
  for (std::size_t k = 0; k < boards.size(); ++k) {
    play::Tree alone = tree_of(k);
    play::run({&alone, 1}, std::ref(evaluator), left);
    CHECK(alone.simulations() == 30);
    for (int i = 0; i < game::kSnakes; ++i) {
      for (int move = 0; move < game::kMoves; ++move) {
        CHECK(alone.visits(i, move) == together[k].visits(i, move));
        CHECK(alone.mean(i, move) == together[k].mean(i, move));
      }
    }
  }
}

TEST_CASE("simulations under way together try different moves, and then count like others", "[unit]") {
  // Nothing distinguishes the moves: alone, each simulation after the first would wait for the one before.
  const game::State state = snake_alone();
  std::vector<std::size_t> batches;
  const auto counted = [&](std::span<const game::State> boards, std::span<play::Leaf> leaves) {
    by_score(boards, leaves);
    batches.push_back(boards.size());
  };
  play::TreeOptions options;
  options.leaves = 3;
  const play::Tree tree = grown(state, 7, options, counted);
  CHECK(batches == std::vector<std::size_t>{1, 3, 3, 1});
  CHECK(tree.simulations() == 7);
  int visits = 0;
  for (const int move : {game::kUp, game::kLeft, game::kRight}) {
    CHECK(tree.visits(0, move) >= 2);
    visits += tree.visits(0, move);
  }
  CHECK(visits == 7);
}

TEST_CASE("simulations under way together meet less often on a board than if they cost each other nothing",
          "[unit]") {
  const std::vector<game::State> boards = champion::boards(1, 20);
  play::Evaluator evaluator = champion::evaluator();
  const auto met = [&](float virtual_loss) {
    std::size_t again = 0;
    play::TreeOptions options;
    options.leaves = 16;
    options.virtual_loss = virtual_loss;
    for (const game::State& board : boards)
      grown(board, 64, options, [&](std::span<const game::State> reached, std::span<play::Leaf> leaves) {
        evaluator(reached, leaves);
        for (auto at = reached.begin(); at != reached.end(); ++at)
          again += std::find(reached.begin(), at, *at) != at ? 1 : 0;
      });
    return again;
  };
  CHECK(4 * met(play::TreeOptions().virtual_loss) < 3 * met(0));
}
