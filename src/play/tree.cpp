#include "snake_ddp/play/tree.hpp"

#include <algorithm>
#include <cmath>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/play/variation.hpp"

namespace snake_ddp::play {
namespace {

std::uint16_t key_of(const game::Actions& actions) {
  unsigned key = 0;
  for (const std::uint8_t move : actions.of) key = key << 2 | move;
  return static_cast<std::uint16_t>(key);
}

}  // namespace

Tree::Tree(const game::State& root, const Leaf& leaf, const MoveRandom& dice, const TreeOptions& options)
    : root_(root), dice_(dice), options_(options) {
  SD_CHECK(!root.done(), "a tree needs a game that is not over");
  add_node(leaf);
}

void Tree::add_node(const Leaf& leaf) {
  Node& node = nodes_.emplace_back();
  node.value = static_cast<double>(leaf.value);
  std::copy(std::begin(leaf.open), std::end(leaf.open), node.open);
  for (std::size_t i = 0; i < game::kSnakes; ++i) {
    const float best = leaf.q[i][best_move(leaf.q[i], leaf.open[i])];
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
      const int n = node.visits[i][a], under_way = node.under_way[i][a];
      const double mean = n > 0 ? node.sum[i][a] / n : node.value;
      const double loss =
          under_way > 0 ? static_cast<double>(options_.virtual_loss) * under_way / (n + under_way) : 0.0;
      const double score =
          sign * mean - loss + exploration * static_cast<double>(node.prior[i][a]) / (1 + n + under_way);
      if (found && score <= best) continue;
      best = score;
      actions.of[i] = a;
      found = true;
    }
  }
  return actions;
}

// The node that the step leads to, or null.
const std::uint32_t* Tree::child(const Step& step) const {
  const auto& children = nodes_[step.node].children;
  const auto found = std::find_if(children.begin(), children.end(),
                                  [key = key_of(step.actions)](const auto& c) { return c.first == key; });
  return found == children.end() ? nullptr : &found->second;
}

std::int64_t Tree::most_bytes(std::int64_t simulations) {
  // A node for each and a place among its parent's children, in vectors that grow by doubling.
  constexpr std::int64_t kNode = sizeof(Node) + sizeof(decltype(Node::children)::value_type);
  return 2 * kNode * (simulations + 1);
}

std::optional<game::State> Tree::descend() {
  game::State state = root_;
  std::vector<Step> path;
  const std::uint32_t simulation = begun_++;
  for (std::uint32_t node = 0;;) {
    const game::Actions actions = select(nodes_[node]);
    const Draws draws = dice_.draws(simulation, static_cast<std::uint32_t>(path.size()));
    DrawnChance chance(draws);
    path.push_back({node, actions, lead_of(game::step(state, actions, chance))});
    ++nodes_[node].all_visits;
    for (int i = 0; i < game::kSnakes; ++i) ++nodes_[node].under_way[i][actions.of[i]];
    if (state.done()) {
      back_up(path, 0.0);
      return {};
    }
    const std::uint32_t* next = child(path.back());
    if (next == nullptr) {
      under_way_.push_back(std::move(path));
      return state;
    }
    node = *next;
  }
}

void Tree::expand(const Leaf& leaf) {
  SD_CHECK(!under_way_.empty(), "finish needs a simulation that select began");
  const std::vector<Step> path = std::move(under_way_.front());
  under_way_.pop_front();
  if (child(path.back()) == nullptr) {  // no simulation of this batch came here before
    nodes_[path.back().node].children.emplace_back(key_of(path.back().actions),
                                                   static_cast<std::uint32_t>(nodes_.size()));
    add_node(leaf);
  }
  back_up(path, static_cast<double>(leaf.value));
}

void Tree::back_up(const std::vector<Step>& path, double value) {
  for (auto step = path.rbegin(); step != path.rend(); ++step) {
    value = step->lead + options_.gamma * value;
    Node& node = nodes_[step->node];
    for (int i = 0; i < game::kSnakes; ++i) {
      --node.under_way[i][step->actions.of[i]];
      ++node.visits[i][step->actions.of[i]];
      node.sum[i][step->actions.of[i]] += value;
    }
  }
}

double Tree::mean(int snake, int move) const {
  const int n = nodes_[0].visits[snake][move];
  return n > 0 ? nodes_[0].sum[snake][move] / n : nodes_[0].value;
}

game::Actions Tree::most_visited(const Node& node) {
  game::Actions actions{};
  for (int i = 0; i < game::kSnakes; ++i) {
    const auto rank = [&](std::uint8_t a) { return std::pair(node.visits[i][a], node.prior[i][a]); };
    for (std::uint8_t a = 1; a < game::kMoves; ++a)
      if (rank(a) > rank(actions.of[i])) actions.of[i] = a;
  }
  return actions;
}

TeamMoves Tree::best(int team) const {
  TeamMoves moves;
  std::copy_n(most_visited(nodes_[0]).of + team * game::kTeamSize, moves.size(), moves.begin());
  return moves;
}

Reasons Tree::reasons(int team) const {
  Reasons reasons{Reasons::Kind::kTree};
  const double sign = team == 0 ? 1.0 : -1.0;
  for (std::size_t i = 0; i < game::kTeamSize; ++i) {
    const int snake = team * game::kTeamSize + static_cast<int>(i);
    for (int move = 0; move < game::kMoves; ++move) {
      const auto a = static_cast<std::size_t>(move);
      reasons.visits[i][a] = visits(snake, move);
      reasons.worth[i][a] = visits(snake, move) > 0 ? sign * mean(snake, move) : kClosed;
    }
  }
  Variation line(root_);
  Step step{0, most_visited(nodes_[0]), 0.0};
  for (std::uint32_t depth = 0;; ++depth) {
    line.add(step.actions, dice_.draws(0, depth));
    const std::uint32_t* next = child(step);
    if (line.over() || next == nullptr || nodes_[*next].children.empty()) break;
    step = {*next, most_visited(nodes_[*next]), 0.0};
  }
  reasons.line = line.moves();
  return reasons;
}

void run(std::span<Tree> trees, const Evaluate& evaluate,
         const std::function<std::int64_t(std::int64_t simulations)>& left) {
  if (trees.empty()) return;
  std::vector<Tree*> waiting;
  std::vector<game::State> boards;
  std::vector<Leaf> leaves;
  for (std::int64_t done = 0, next = 0; (next = std::min<std::int64_t>(left(done), trees[0].leaves())) > 0;
       done += next) {
    waiting.clear();
    boards.clear();
    for (Tree& tree : trees) {
      for (std::int64_t k = 0; k < next; ++k) {
        const std::optional<game::State> board = tree.descend();
        if (!board) continue;
        waiting.push_back(&tree);
        boards.push_back(*board);
      }
    }
    leaves.resize(boards.size());
    evaluate(boards, leaves);
    for (std::size_t k = 0; k < waiting.size(); ++k) waiting[k]->expand(leaves[k]);
  }
}

}  // namespace snake_ddp::play
