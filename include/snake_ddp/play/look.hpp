// One move ahead: joint moves of a team are tried on the exact rules against sampled moves of the foes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "snake_ddp/play/evaluator.hpp"
#include "snake_ddp/play/reasons.hpp"
#include "snake_ddp/play/search_chance.hpp"

namespace snake_ddp::play {

using TeamMoves = std::array<std::uint8_t, game::kTeamSize>;

/// One imagined future, the same for all candidates.
struct Sample {
  TeamMoves foes;
  Draws draws;
};

struct LookTask {
  game::State state;
  int team = 0;
  std::vector<TeamMoves> candidates;  // the first one is made on a tie
  std::vector<Sample> samples;
};

struct LookScores {
  std::vector<double> scores;  // of the candidates
  std::size_t best = 0;
};

/// The best open move of each snake of the team.
TeamMoves bare_moves(const Leaf& leaf, int team);

/// The bare moves, then those where one snake deviates, by snake and move: at most 6 where moves that are certain death are closed.
std::vector<TeamMoves> candidates_of(const Leaf& leaf, int team);

/// In the first sample the foes make their bare moves, in others those drawn from softmax(Q / temperature) of
/// their open moves.
std::vector<Sample> samples_of(const Leaf& leaf, int team, int samples, float temperature,
                               const MoveRandom& dice);

/// How the network values a team's open moves, without a search.
Reasons reasons_of(const Leaf& leaf, int team);
/// Why a team makes the best candidate: a move's worth is the best score of a candidate that has it.
Reasons reasons_of(const LookTask& task, const LookScores& scores);

/// A candidate's score, in points per snake: the mean over samples of the lead gained in the step plus gamma times the
/// value of the next board, 0 if the game is over. Each next board is evaluated once, the boards of all tasks in one
/// batch.
/// Throws  Bug for a task without candidates or samples, or about a finished board.
std::vector<LookScores> look(std::span<const LookTask> tasks, double gamma, const Evaluate& evaluate);

}  // namespace snake_ddp::play
