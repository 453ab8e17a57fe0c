#include "snake_ddp/play/deaths.hpp"

#include <algorithm>
#include <string>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/game/moves.hpp"

namespace snake_ddp::play {
namespace {

using game::kMoves;
using game::kSnakes;
using game::kTeamSize;

constexpr unsigned kNoWayOut = (1U << kMoves) - 1;

bool are_mates(int a, int b) { return a / kTeamSize == b / kTeamSize; }

int new_head(const game::State& before, const game::StepResult& played, int snake) {
  return game::follow(before.head(snake), played.turned[snake]);
}

// Of two heads on one bean the first in index order eats.
bool ate(const game::State& before, const game::StepResult& played, int snake) {
  const int cell = new_head(before, played, snake);
  bool first = before.code(cell) == 1;
  for (int other = 0; other < snake; ++other) first = first && new_head(before, played, other) != cell;
  return first;
}

// The snake whose segment is on the cell; -1 if there is none.
int owner(const game::State& before, int cell) { return std::max(before.code(cell), 1) - 2; }

bool can_reach(const game::State& before, int snake, int cell) {
  bool there = false;
  for (int d = 0; d < kMoves; ++d) {
    there = there || (before.length(snake) > 0 && d != (before.direction(snake) ^ 1) &&
                      game::follow(before.head(snake), d) == cell);
  }
  return there;
}

bool may_eat(const game::State& before, int snake) {
  bool may = false;
  for (int b = 0; b < before.bean_count(); ++b) may = may || can_reach(before, snake, before.bean(b));
  return may;
}

bool has_safe_move(const game::State& before, int snake) {
  const unsigned fatal = game::fatal_moves(before, snake);
  for (int d = 0; d < kMoves; ++d) {
    if ((fatal >> d & 1U) != 0) continue;
    const int cell = game::follow(before.head(snake), d), tail_of = owner(before, cell);
    bool safe = tail_of < 0 || tail_of == snake || !may_eat(before, tail_of);
    for (int other = 0; other < kSnakes; ++other)
      safe = safe && (other == snake || !can_reach(before, other, cell));
    if (safe) return true;
  }
  return false;
}

Death boxed_by(const game::State& before, int snake) {
  bool by_mate = false;
  for (int d = 0; d < kMoves; ++d) {
    if (d == (before.direction(snake) ^ 1)) continue;
    const int wall = owner(before, game::follow(before.head(snake), d));
    if (!are_mates(wall, snake)) return Death::kBoxedByFoe;
    by_mate = by_mate || wall != snake;
  }
  return by_mate ? Death::kBoxedByMate : Death::kBoxedByItself;
}

Death head_on(const game::State& before, int snake, int foe) {
  const int longer = before.length(snake) - before.length(foe);
  const Death with_safe = longer > 0    ? Death::kHeadOnLongerSafe
                          : longer == 0 ? Death::kHeadOnEqualSafe
                                        : Death::kHeadOnShorterSafe;
  constexpr int kForced = static_cast<int>(Death::kHeadOnLongerForced);
  return has_safe_move(before, snake) ? with_safe : static_cast<Death>(static_cast<int>(with_safe) + kForced);
}

}  // namespace

Death why_died(const game::State& before, const game::StepResult& played, int snake) {
  SD_CHECK(played.hit[snake] != 0,
           "only a snake that died has a cause of death: snake " + std::to_string(snake));
  if (game::fatal_moves(before, snake) == kNoWayOut) return boxed_by(before, snake);
  const int cell = new_head(before, played, snake), in_the_way = owner(before, cell);
  const bool is_tail = in_the_way >= 0 && before.tails[in_the_way] == cell;
  if (in_the_way >= 0 && (!is_tail || ate(before, played, in_the_way))) {
    if (in_the_way == snake) return Death::kOwnBody;
    if (are_mates(in_the_way, snake)) return is_tail ? Death::kMatesTail : Death::kMatesBody;
    return is_tail ? Death::kFoesTail : Death::kFoesBody;
  }
  int foe = -1;
  bool mate = false;
  for (int other = 0; other < kSnakes; ++other) {
    if (other == snake || new_head(before, played, other) != cell) continue;
    if (are_mates(other, snake)) {
      mate = true;
    } else if (foe < 0 || before.length(other) > before.length(foe)) {
      foe = other;
    }
  }
  SD_CHECK(foe >= 0 || mate, "a snake that died must have met something: snake " + std::to_string(snake));
  return foe >= 0 ? head_on(before, snake, foe) : Death::kMatesHead;
}

void count_deaths(const game::State& before, const game::StepResult& played, int team, DeathSums& sums) {
  for (int snake = team * kTeamSize; snake < (team + 1) * kTeamSize; ++snake) {
    if (played.hit[snake] == 0) continue;
    const auto cause = static_cast<std::size_t>(why_died(before, played, snake));
    DeathSums::Sum& sum = sums.of[cause][before.step() > kLastEarlyStep];
    ++sum.deaths;
    sum.length += before.length(snake) - game::kStartLength;
  }
}

void DeathSums::add(const DeathSums& other) {
  for (std::size_t k = 0; k < kDeathKinds; ++k) {
    for (int late = 0; late < 2; ++late) {
      of[k][late].deaths += other.of[k][late].deaths;
      of[k][late].length += other.of[k][late].length;
    }
  }
}

DeathSums::Sum DeathSums::total(int late) const {
  Sum sum;
  for (const auto& cause : of) {
    sum.deaths += cause[late].deaths;
    sum.length += cause[late].length;
  }
  return sum;
}

DeathSums::Sum DeathSums::total() const {
  const Sum early = total(0), late = total(1);
  return {early.deaths + late.deaths, early.length + late.length};
}

DeathSums::Sum DeathSums::group(std::string_view name) const {
  DeathSums only;
  for (std::size_t k = 0; k < kDeathKinds; ++k) {
    if (kDeaths[k].group == name) std::copy(std::begin(of[k]), std::end(of[k]), only.of[k]);
  }
  return only.total();
}

}  // namespace snake_ddp::play
