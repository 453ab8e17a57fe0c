#include "snake_ddp/play/blunders.hpp"

#include <algorithm>

#include "snake_ddp/core/check.hpp"

namespace snake_ddp::play {
namespace {

constexpr std::size_t kSideBySide = 16;  // boards whose trees grow together

double worth(const Tree& tree, int snake, int move) {
  return (snake < game::kTeamSize ? 1.0 : -1.0) * tree.mean(snake, move);
}

void add_losses(const Searcher& searcher, const Evaluate& evaluate, std::span<const Turn> turns,
                std::vector<Loss>& losses) {
  TreeOptions options = searcher.spec.tree;
  options.gamma = searcher.training.gamma;
  const auto left = [&](std::int64_t done) { return searcher.spec.count - done; };
  const auto tree_of = [&](const game::State& board, const Leaf& leaf) {
    return Tree(board, leaf, MoveRandom(1, 0, board.step(), 0), options);
  };
  std::vector<game::State> boards;
  for (const Turn& turn : turns) boards.push_back(turn.board);
  std::vector<Leaf> leaves(boards.size());
  evaluate(boards, leaves);
  std::vector<Tree> best, played;
  for (std::size_t k = 0; k < boards.size(); ++k) best.push_back(tree_of(boards[k], leaves[k]));
  run(best, evaluate, left);
  const std::size_t first = losses.size();
  for (std::size_t k = 0; k < boards.size(); ++k) {
    for (int snake = 0; snake < game::kSnakes; ++snake) {
      const int team = snake / game::kTeamSize, made = turns[k].played[static_cast<std::size_t>(snake)];
      const int better = best[k].best(team)[static_cast<std::size_t>(snake % game::kTeamSize)];
      if (made == better || made == kUnknownMove) continue;
      losses.push_back({boards[k].step() - 1, snake, made, better, 0.0, worth(best[k], snake, better)});
      Leaf only = leaves[k];
      only.open[snake] = static_cast<std::uint8_t>(1U << made);
      played.push_back(tree_of(boards[k], only));
    }
  }
  run(played, evaluate, left);
  for (std::size_t k = 0; k < played.size(); ++k) {
    Loss& loss = losses[first + k];
    loss.value_played = worth(played[k], loss.snake, loss.played);
  }
}

}  // namespace

std::vector<Loss> losses_of(const Searcher& searcher, const Evaluate& evaluate, std::span<const Turn> turns) {
  SD_CHECK(searcher.spec.kind == SearchSpec::Kind::kPuct && searcher.spec.count > 0,
           "moves are judged by a number of simulations, not by time");
  std::vector<Loss> losses;
  for (; !turns.empty(); turns = turns.subspan(std::min(kSideBySide, turns.size())))
    add_losses(searcher, evaluate, turns.first(std::min(kSideBySide, turns.size())), losses);
  std::erase_if(losses, [](const Loss& loss) { return loss.points() <= 0.0; });
  std::stable_sort(losses.begin(), losses.end(),
                   [](const Loss& a, const Loss& b) { return a.points() > b.points(); });
  return losses;
}

}  // namespace snake_ddp::play
