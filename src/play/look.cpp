#include "snake_ddp/play/look.hpp"

#include <algorithm>
#include <cmath>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/play/variation.hpp"

namespace snake_ddp::play {
namespace {

bool is_open(const Leaf& leaf, int snake, std::uint8_t move) { return (leaf.open[snake] >> move & 1U) != 0; }

game::Actions joined(const LookTask& q, const TeamMoves& moves, const TeamMoves& foes) {
  const auto own = static_cast<std::size_t>(q.team) * game::kTeamSize, foe = game::kTeamSize - own;
  game::Actions actions;
  std::copy(moves.begin(), moves.end(), actions.of + own);
  std::copy(foes.begin(), foes.end(), actions.of + foe);
  return actions;
}

}  // namespace

TeamMoves bare_moves(const Leaf& leaf, int team) {
  TeamMoves moves;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const std::size_t snake = static_cast<std::size_t>(team) * game::kTeamSize + i;
    moves[i] = best_move(leaf.q[snake], leaf.open[snake]);
  }
  return moves;
}

std::vector<TeamMoves> candidates_of(const Leaf& leaf, int team) {
  const TeamMoves bare = bare_moves(leaf, team);
  std::vector<TeamMoves> all = {bare};
  for (std::size_t i = 0; i < bare.size(); ++i) {
    for (std::uint8_t move = 0; move < game::kMoves; ++move) {
      if (move == bare[i] || !is_open(leaf, team * game::kTeamSize + static_cast<int>(i), move)) continue;
      all.push_back(bare);
      all.back()[i] = move;
    }
  }
  return all;
}

std::vector<Sample> samples_of(const Leaf& leaf, int team, int samples, float temperature,
                               const MoveRandom& dice) {
  const TeamMoves bare = bare_moves(leaf, 1 - team);
  const int first = (1 - team) * game::kTeamSize;
  float weights[game::kTeamSize][game::kMoves];
  for (int i = 0; i < game::kTeamSize; ++i) {
    const float best = leaf.q[first + i][bare[static_cast<std::size_t>(i)]];
    for (int a = 0; a < game::kMoves; ++a)
      weights[i][a] = std::exp((leaf.q[first + i][a] - best) / temperature);
  }
  std::vector<Sample> all;
  for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(samples); ++k) {
    all.push_back({bare, dice.draws(k, 0)});
    if (k == 0) continue;
    const core::RandomBlock drawn = dice.foes(k);
    for (int i = 0; i < game::kTeamSize; ++i) {
      all.back().foes[static_cast<std::size_t>(i)] =
          sampled_move(weights[i], core::unit_float(drawn.word[i]), leaf.open[first + i]);
    }
  }
  return all;
}

std::vector<LookScores> look(std::span<const LookTask> tasks, double gamma, const Evaluate& evaluate) {
  struct Outcome {
    double lead;
    std::size_t board;
  };
  std::vector<Outcome> outcomes;  // by task, candidate, sample
  std::vector<game::State> boards;
  for (const LookTask& q : tasks) {
    SD_CHECK(!q.candidates.empty() && !q.samples.empty() && !q.state.done(),
             "a one-ply search needs candidates, samples, and a game that is not over");
    for (const TeamMoves& moves : q.candidates) {
      const std::size_t known = boards.size();
      for (const Sample& sample : q.samples) {
        game::State next = q.state;
        DrawnChance chance(sample.draws);
        const double lead = lead_of(game::step(next, joined(q, moves, sample.foes), chance));
        // Many samples lead to the same board: the foes are sure of their moves, and no bean is eaten.
        const auto same = std::find(boards.begin() + static_cast<std::ptrdiff_t>(known), boards.end(), next);
        outcomes.push_back({lead, static_cast<std::size_t>(same - boards.begin())});
        if (same == boards.end()) boards.push_back(next);
      }
    }
  }
  std::vector<Leaf> leaves(boards.size());
  evaluate(boards, leaves);
  std::vector<LookScores> found;
  auto outcome = outcomes.begin();
  for (const LookTask& q : tasks) {
    const double sign = q.team == 0 ? 1.0 : -1.0;
    LookScores& scores = found.emplace_back();
    for (std::size_t c = 0; c < q.candidates.size(); ++c) {
      double sum = 0.0;
      for (std::size_t s = 0; s < q.samples.size(); ++s, ++outcome) {
        const double next =
            boards[outcome->board].done() ? 0.0 : static_cast<double>(leaves[outcome->board].value);
        sum += sign * (outcome->lead + gamma * next);
      }
      scores.scores.push_back(sum / static_cast<double>(q.samples.size()));
      if (scores.scores[c] > scores.scores[scores.best]) scores.best = c;
    }
  }
  return found;
}

Reasons reasons_of(const Leaf& leaf, int team) {
  Reasons reasons{Reasons::Kind::kValues};
  for (std::size_t i = 0; i < game::kTeamSize; ++i) {
    const int snake = team * game::kTeamSize + static_cast<int>(i);
    for (std::uint8_t move = 0; move < game::kMoves; ++move)
      reasons.worth[i][move] =
          is_open(leaf, snake, move) ? static_cast<double>(leaf.q[snake][move]) : kClosed;
  }
  return reasons;
}

Reasons reasons_of(const LookTask& q, const LookScores& scores) {
  Reasons reasons{Reasons::Kind::kLook};
  for (auto& worth : reasons.worth) worth.fill(kClosed);
  for (std::size_t c = 0; c < q.candidates.size(); ++c) {
    for (std::size_t i = 0; i < game::kTeamSize; ++i) {
      double& worth = reasons.worth[i][q.candidates[c][i]];
      worth = std::fmax(worth, scores.scores[c]);  // of a NaN and a number, the number
    }
  }
  Variation line(q.state);
  line.add(joined(q, q.candidates[scores.best], q.samples[0].foes), q.samples[0].draws);
  reasons.line = line.moves();
  return reasons;
}

}  // namespace snake_ddp::play
