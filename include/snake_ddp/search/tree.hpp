// A tree of simultaneous moves: decoupled PUCT.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "snake_ddp/search/look.hpp"

namespace snake_ddp::search {

struct TreeOptions {
  double gamma = 0.99;
  float c_puct = 0.2F;             // exploration, in points per snake
  float prior_temperature = 0.1F;  // the prior is softmax(Q / temperature) over open moves
};

/// The search of one board. Each of the six snakes is a bandit of its own at each node: it makes the move with the largest
///   mean + c_puct * prior * sqrt(node's visits) / (1 + move's visits),
/// team B with the mean's sign turned; an unvisited move's mean is the node's value. A node's key is the moves that lead to it.
/// Beans are drawn anew in each simulation, which plays from the root on (open loop), and a new node's value is backed up
/// with the leads gained on the way, discounted.
/// Follows  Tak, Lanctot and Winands, "Monte Carlo Tree Search Variants for Simultaneous Move Games", CIG 2014, with the
///          selection of Silver et al., "Mastering the game of Go without human knowledge", Nature 2017.
class Tree {
 public:
  /// Throws  Bug for a finished board.
  Tree(const game::State& root, const Leaf& leaf, const Dice& dice, const TreeOptions& options);

  /// Plays down to a board without a node. Returns it, or null if the game ended before: then the simulation is done.
  /// Owner   this tree; until the next call.
  const game::State* descend();
  /// Ends the simulation with that board's leaf.
  void expand(const Leaf& leaf);

  [[nodiscard]] std::int64_t simulations() const { return simulations_; }
  /// Simulations that made this move of the snake first.
  [[nodiscard]] int visits(int snake, int move) const { return nodes_[0].visits[snake][move]; }
  /// The mean of what followed it, as lead of team A in points per snake.
  [[nodiscard]] double mean(int snake, int move) const;
  /// Each snake's most visited move; on a tie the one that the network prefers.
  [[nodiscard]] TeamMoves best(int team) const;

 private:
  struct Node {
    double value;
    float prior[game::kSnakes][game::kMoves];  // 0 for closed moves
    double sum[game::kSnakes][game::kMoves] = {};
    int visits[game::kSnakes][game::kMoves] = {};
    int all_visits = 1;
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
  void back_up(double value);

  game::State root_, state_;
  Dice dice_;
  TreeOptions options_;
  std::vector<Node> nodes_;
  std::vector<Step> path_;
  std::uint32_t simulations_ = 0;
};

/// Lets each tree simulate until `enough` says so, one leaf of each per batch.
void run(std::span<Tree> trees, const Evaluate& evaluate,
         const std::function<bool(std::int64_t simulations)>& enough);

}  // namespace snake_ddp::search
