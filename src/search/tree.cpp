#include "snake_ddp/search/tree.hpp"

#include <algorithm>
#include <cmath>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::search {
namespace {

std::uint16_t key_of(const game::Actions& actions) {
  unsigned key = 0;
  for (const std::uint8_t move : actions.of) key = key << 2 | move;
  return static_cast<std::uint16_t>(key);
}

}  // namespace

Tree::Tree(const game::State& root, const Leaf& leaf, const Dice& dice, const TreeOptions& options)
    : root_(root), state_(root), dice_(dice), options_(options) {
  SD_CHECK(!root.done(), "a board to move on");
  add_node(leaf);
}

void Tree::add_node(const Leaf& leaf) {
  Node& node = nodes_.emplace_back();
  node.value = static_cast<double>(leaf.value);
  std::copy(std::begin(leaf.open), std::end(leaf.open), node.open);
  for (std::size_t i = 0; i < game::kSnakes; ++i) {
    const float best = leaf.q[i][play::best_move(leaf.q[i], leaf.open[i])];
    float sum = 0.0F;
    for (int a = 0; a < game::kMoves; ++a) {
      const bool may = (leaf.open[i] >> a & 1U) != 0;
      node.prior[i][a] = may ? std::exp((leaf.q[i][a] - best) / options_.prior_temperature) : 0.0F;
      sum += node.prior[i][a];
    }
    for (float& p : node.prior[i]) p /= sum;
  }
}

game::Actions Tree::select(const Node& node) const {
  const double exploration =
      static_cast<double>(options_.c_puct) * std::sqrt(static_cast<double>(node.all_visits));
  game::Actions actions;
  for (int i = 0; i < game::kSnakes; ++i) {
    const double sign = i < game::kTeamSize ? 1.0 : -1.0;
    double best = 0.0;
    bool found = false;
    for (std::uint8_t a = 0; a < game::kMoves; ++a) {
      if ((node.open[i] >> a & 1U) == 0) continue;
      const int n = node.visits[i][a];
      const double mean = n > 0 ? node.sum[i][a] / n : node.value;
      const double score = sign * mean + exploration * static_cast<double>(node.prior[i][a]) / (1 + n);
      if (found && score <= best) continue;
      best = score;
      actions.of[i] = a;
      found = true;
    }
  }
  return actions;
}

const game::State* Tree::descend() {
  state_ = root_;
  path_.clear();
  for (std::uint32_t node = 0, depth = 0;; ++depth) {
    const game::Actions actions = select(nodes_[node]);
    const Draws draws = dice_.draws(simulations_, depth);
    DrawnChance chance(draws);
    path_.push_back({node, actions, lead_of(game::step(state_, actions, chance))});
    if (state_.done()) {
      back_up(0.0);
      return nullptr;
    }
    const auto& children = nodes_[node].children;
    const auto child = std::find_if(children.begin(), children.end(),
                                    [key = key_of(actions)](const auto& c) { return c.first == key; });
    if (child == children.end()) return &state_;
    node = child->second;
  }
}

void Tree::expand(const Leaf& leaf) {
  nodes_[path_.back().node].children.emplace_back(key_of(path_.back().actions),
                                                  static_cast<std::uint32_t>(nodes_.size()));
  add_node(leaf);
  back_up(nodes_.back().value);
}

void Tree::back_up(double value) {
  for (auto step = path_.rbegin(); step != path_.rend(); ++step) {
    value = step->lead + options_.gamma * value;
    Node& node = nodes_[step->node];
    ++node.all_visits;
    for (int i = 0; i < game::kSnakes; ++i) {
      ++node.visits[i][step->actions.of[i]];
      node.sum[i][step->actions.of[i]] += value;
    }
  }
  ++simulations_;
}

double Tree::mean(int snake, int move) const {
  const int n = nodes_[0].visits[snake][move];
  return n > 0 ? nodes_[0].sum[snake][move] / n : nodes_[0].value;
}

TeamMoves Tree::best(int team) const {
  const Node& root = nodes_[0];
  TeamMoves moves{};
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const std::size_t snake = static_cast<std::size_t>(team) * game::kTeamSize + i;
    const auto rank = [&](std::uint8_t a) { return std::pair(root.visits[snake][a], root.prior[snake][a]); };
    for (std::uint8_t a = 1; a < game::kMoves; ++a)
      if (rank(a) > rank(moves[i])) moves[i] = a;
  }
  return moves;
}

void run(std::span<Tree> trees, const Evaluate& evaluate,
         const std::function<bool(std::int64_t simulations)>& enough) {
  std::vector<Tree*> waiting;
  std::vector<game::State> boards;
  std::vector<Leaf> leaves(trees.size());
  for (std::int64_t done = 0; !enough(done); ++done) {
    waiting.clear();
    boards.clear();
    for (Tree& tree : trees) {
      const game::State* board = tree.descend();
      if (board == nullptr) continue;
      waiting.push_back(&tree);
      boards.push_back(*board);
    }
    evaluate(boards, std::span(leaves).first(boards.size()));
    for (std::size_t k = 0; k < waiting.size(); ++k) waiting[k]->expand(leaves[k]);
  }
}

}  // namespace snake_ddp::search
