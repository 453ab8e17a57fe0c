// A tree of simultaneous moves: decoupled PUCT.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "snake_ddp/play/look.hpp"

namespace snake_ddp::play {

struct TreeOptions {
  double gamma = 0.99;
  float c_puct = 0.4F;             // exploration, in points per snake
  float prior_temperature = 0.1F;  // the prior is softmax(Q / temperature) over open moves
  int leaves = 1;                  // simulations that are under way together
  float virtual_loss = 1.0F;       // in points per snake, if all of a move's simulations are under way
};

/// The search of one board. Each of the six snakes is a bandit of its own at each node: it makes the move with the largest
///   mean + c_puct * prior * sqrt(node's visits) / (1 + move's visits),
/// with the mean's sign flipped for team B; an unvisited move's mean is the node's value. A node is
/// identified by the moves that lead to it. Beans are drawn anew in each simulation, which plays from the
/// root on (open loop), and a new node's value is backed up with the discounted leads gained on the way. A
/// move with n visits and o simulations under way counts as n + o visits in the formula, and its mean is
/// lowered by virtual_loss * o / (n + o).
/// Follows  Tak, Lanctot and Winands, "Monte Carlo Tree Search Variants for Simultaneous Move Games", CIG 2014, with the
///          selection of Silver et al., "Mastering the game of Go without human knowledge", Nature 2017, and the virtual loss
///          of Chaslot, Winands and van den Herik, "Parallel Monte-Carlo Tree Search", CG 2008.
class Tree {
 public:
  /// Throws  Bug for a finished board.
  Tree(const game::State& root, const Leaf& leaf, const MoveRandom& dice, const TreeOptions& options);

  /// Plays down to a board without a node. Returns it, or nothing if the game ended first: then the simulation is done.
  std::optional<game::State> descend();
  /// Completes the oldest simulation under way; `leaf` is that of the board that it returned.
  void expand(const Leaf& leaf);

  /// What a tree may take up after so many simulations.
  static std::int64_t most_bytes(std::int64_t simulations);

  [[nodiscard]] int leaves() const { return options_.leaves; }
  /// How many are done.
  [[nodiscard]] std::int64_t simulations() const {
    return begun_ - static_cast<std::int64_t>(under_way_.size());
  }
  /// Simulations that began with this move of the snake.
  [[nodiscard]] int visits(int snake, int move) const { return nodes_[0].visits[snake][move]; }
  /// The mean of their results, as team A's lead in points per snake.
  [[nodiscard]] double mean(int snake, int move) const;
  /// Each snake's most visited move; on a tie the one that the network prefers.
  [[nodiscard]] TeamMoves best(int team) const;
  /// Why a team makes its best moves, and the line in which each snake makes its most visited move, as far
  /// as simulations went.
  [[nodiscard]] Reasons reasons(int team) const;

 private:
  struct Node {
    double value;
    float prior[game::kSnakes][game::kMoves];  // 0 for closed moves
    double sum[game::kSnakes][game::kMoves] = {};
    int visits[game::kSnakes][game::kMoves] = {};
    int under_way[game::kSnakes][game::kMoves] = {};
    int all_visits = 1;  // with those under way
    std::uint8_t open[game::kSnakes];
    std::vector<std::pair<std::uint16_t, std::uint32_t>> children;  // moves as a number, node
  };
  struct Step {
    std::uint32_t node;
    game::Actions actions;
    double lead;
  };

  void add_node(const Leaf& leaf);
  [[nodiscard]] game::Actions select(const Node& node) const;
  [[nodiscard]] const std::uint32_t* child(const Step& step) const;
  [[nodiscard]] static game::Actions most_visited(const Node& node);
  void back_up(const std::vector<Step>& path, double value);

  game::State root_;
  MoveRandom dice_;
  TreeOptions options_;
  std::vector<Node> nodes_;
  std::deque<std::vector<Step>> under_way_;
  std::uint32_t begun_ = 0;
};

/// Runs simulations in each tree until `left` returns 0: given the number done so far, it returns how many
/// more a tree may do. A batch has up to `leaves` boards of each tree.
void run(std::span<Tree> trees, const Evaluate& evaluate,
         const std::function<std::int64_t(std::int64_t simulations)>& left);

}  // namespace snake_ddp::play
