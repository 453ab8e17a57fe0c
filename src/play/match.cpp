#include "snake_ddp/play/match.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "snake_ddp/game/rules.hpp"

namespace snake_ddp::play {
namespace {

class ScriptedMover final : public Mover {
 public:
  ScriptedMover(game::Opponent opponent, std::uint64_t seed) : opponent_(opponent), seed_(seed) {}

  void act(std::span<const game::State> boards, std::span<const std::uint8_t> team, std::int64_t first_game,
           std::span<game::Actions> actions, std::span<Reasons> /*reasons*/) override {
    for (std::size_t k = 0; k < boards.size(); ++k) {
      if (boards[k].done()) continue;
      game::act(opponent_, boards[k], team[k], actions[k], seed_, static_cast<std::uint64_t>(first_game) + k);
    }
  }

 private:
  game::Opponent opponent_;
  std::uint64_t seed_;
};

// `report` gets the number of the step that all games of the block have taken.
MatchResult play_block(const MakeMover& a, const MakeMover& b, const MatchOptions& options,
                       std::int64_t first, const std::function<void(int)>& report) {
  const auto count = static_cast<std::size_t>(std::min(kBlock, options.games - first));
  std::vector<game::State> boards(count);
  std::vector<std::uint8_t> team_a(count, 0), team_b(count, 1);
  std::vector<game::Actions> actions(count);
  const auto luck_of = [&](std::size_t k) {
    const std::uint64_t id = static_cast<std::uint64_t>(first) + k;
    return game::Draws{options.seed, options.paired ? id / 2 * 2 : id};
  };
  std::vector<int> points(count, -1);  // twice player a's; below 0: the game goes on
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint64_t id = static_cast<std::uint64_t>(first) + k;
    boards[k] = game::new_board(luck_of(k));
    if (options.watch) options.watch(first + static_cast<std::int64_t>(k), boards[k]);
    if (options.swap_sides && id % 2 == 1) std::swap(team_a[k], team_b[k]);
  }
  const std::unique_ptr<Mover> mover_a = a(options.seed), mover_b = b(options.seed);
  std::vector<Reasons> reasons;
  const auto move = [&](Mover& mover, const std::vector<std::uint8_t>& team) {
    reasons.assign(options.on_reasons ? count : 0, {});
    mover.act(boards, team, first, actions, reasons);
    for (std::size_t k = 0; k < reasons.size(); ++k) {
      if (!boards[k].done() && reasons[k].kind != Reasons::Kind::kNone)
        options.on_reasons(first + static_cast<std::int64_t>(k), team[k], reasons[k]);
    }
  };
  MatchResult result;
  std::size_t running = count;
  int step = 0;
  while (running > 0 && !(options.stop && options.stop())) {
    move(*mover_a, team_a);
    move(*mover_b, team_b);
    for (std::size_t k = 0; k < count; ++k) {
      if (boards[k].done()) continue;
      const game::State before = boards[k];
      const game::StepResult played = game::advance(boards[k], actions[k], luck_of(k));
      if (options.on_step)
        options.on_step(first + static_cast<std::int64_t>(k), actions[k], played, boards[k]);
      if (options.watch) options.watch(first + static_cast<std::int64_t>(k), boards[k]);
      ++result.steps;
      count_deaths(before, played, team_a[k], result.deaths_a);
      count_deaths(before, played, team_b[k], result.deaths_b);
      if (!boards[k].done()) continue;
      --running;
      const int score_a = boards[k].team_return(team_a[k]), score_b = boards[k].team_return(team_b[k]);
      ++result.games;
      result.wins += score_a > score_b;
      result.draws += score_a == score_b;
      result.losses += score_a < score_b;
      result.score_a += score_a;
      result.score_b += score_b;
      points[k] = score_a > score_b ? 2 : score_a == score_b ? 1 : 0;
      const std::size_t other = k ^ 1U;
      if (options.paired && other < count && points[other] >= 0)
        ++result.pairs[static_cast<std::size_t>(points[k] + points[other])];
    }
    report(++step);
  }
  return result;
}

}  // namespace

MakeMover scripted(game::Opponent opponent) {
  return [=](std::uint64_t seed) { return std::make_unique<ScriptedMover>(opponent, seed); };
}

void MatchResult::add(const MatchResult& other) {
  games += other.games;
  wins += other.wins;
  draws += other.draws;
  losses += other.losses;
  score_a += other.score_a;
  score_b += other.score_b;
  steps += other.steps;
  deaths_a.add(other.deaths_a);
  deaths_b.add(other.deaths_b);
  for (std::size_t k = 0; k < pairs.size(); ++k) pairs[k] += other.pairs[k];
}

double MatchResult::win_rate() const {
  return games == 0 ? 0.0 : static_cast<double>(wins) / static_cast<double>(games);
}

MatchResult play_match(const MakeMover& a, const MakeMover& b, const MatchOptions& options) {
  MatchResult all;
  const std::int64_t blocks = (options.games + kBlock - 1) / kBlock;
  const std::int64_t own = (blocks + options.parts - 1 - options.part) / options.parts;
  std::int64_t done = 0;
  const auto report = [&](int step) {
    if (options.progress)
      options.progress((static_cast<double>(done) + static_cast<double>(step) / game::kMaxSteps) /
                       static_cast<double>(own));
  };
  for (std::int64_t first = 0; first < options.games; first += kBlock) {
    if (options.stop && options.stop()) break;
    if (first / kBlock % options.parts != options.part) continue;
    try {
      all.add(play_block(a, b, options, first, report));
    } catch (const Cut&) {
      break;
    }
    ++done;
  }
  return all;
}

Interval wilson_interval(std::int64_t successes, std::int64_t trials, double z) {
  if (trials == 0) return {0.0, 1.0};
  const double n = static_cast<double>(trials);
  const double p = static_cast<double>(successes) / n;
  const double z2 = z * z;
  const double centre = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half = z / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

}  // namespace snake_ddp::play
