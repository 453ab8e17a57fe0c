#include "snake_ddp/rollout/match.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/random.hpp"
#include "snake_ddp/encode/moves.hpp"
#include "snake_ddp/game/chance.hpp"

namespace snake_ddp::rollout {
namespace {

constexpr std::int64_t kBlock = 64;

// A side of one block: decides for all its boards at once.
class Side {
 public:
  Side(const Player& player, std::uint64_t seed) : player_(player), seed_(seed) {
    if (player_.scripted) return;
    SD_CHECK(player_.policy != nullptr, "a player needs a script or a policy");
    rows_ = at::zeros({kBlock, game::kTeamSize, player_.sight.features() + 1}, at::kFloat);
    memory_ = at::zeros({kBlock, game::kTeamSize, player_.policy->memory()}, at::kFloat);
  }

  // `team[k]` is the team that this player is on board k.
  void act(const std::vector<game::State>& boards, const std::vector<std::uint8_t>& team,
           std::int64_t first_game, std::vector<game::Actions>& actions) {
    if (player_.scripted) {
      for (std::size_t k = 0; k < boards.size(); ++k) {
        if (boards[k].done()) continue;
        agents::act(*player_.scripted, boards[k], team[k], actions[k], seed_, game_id(first_game, k));
      }
      return;
    }
    const std::int64_t width = game::kTeamSize * (player_.sight.features() + 1);
    for (std::size_t k = 0; k < boards.size(); ++k) {
      if (boards[k].done()) continue;
      player_.sight.write(boards[k], team[k], rows_.data_ptr<float>() + static_cast<std::int64_t>(k) * width);
    }
    const float* values = player_.policy->action_values_after(rows_, memory_).data_ptr<float>();
    const bool argmax = player_.argmax || player_.policy->answer() == nets::Policy::Answer::kValues;
    for (std::size_t k = 0; k < boards.size(); ++k) {
      if (boards[k].done()) continue;
      const base::RandomBlock draw =
          base::random_block(seed_, game_id(first_game, k),
                             static_cast<std::uint32_t>(boards[k].step() * 2 + team[k]), base::Purpose::kAct);
      for (std::size_t snake = 0; snake < game::kTeamSize; ++snake) {
        const float* weights = values + (k * game::kTeamSize + snake) * 4;
        const auto index = static_cast<int>(team[k] * game::kTeamSize + snake);
        const unsigned open = player_.mask_fatal ? encode::open_moves(boards[k], index) : kAllMoves;
        actions[k].of[index] = argmax ? best_move(weights, open)
                                      : sampled_move(weights, base::unit_float(draw.word[snake]), open);
      }
    }
  }

 private:
  static std::uint64_t game_id(std::int64_t first_game, std::size_t k) {
    return static_cast<std::uint64_t>(first_game) + k;
  }
  const Player& player_;
  std::uint64_t seed_;
  at::Tensor rows_, memory_;
};

MatchResult play_block(const Player& a, const Player& b, const MatchOptions& options, std::int64_t first) {
  const auto count = static_cast<std::size_t>(std::min(kBlock, options.games - first));
  std::vector<game::State> boards(count);
  std::vector<std::uint8_t> team_a(count, 0), team_b(count, 1);
  std::vector<game::Actions> actions(count);
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint64_t id = static_cast<std::uint64_t>(first) + k;
    game::PhiloxChance chance(options.seed, id);
    game::reset(boards[k], chance);
    if (options.watch) options.watch(first + static_cast<std::int64_t>(k), boards[k]);
    if (options.swap_sides && id % 2 == 1) std::swap(team_a[k], team_b[k]);
  }
  Side side_a(a, options.seed), side_b(b, options.seed);
  MatchResult result;
  std::size_t running = count;
  while (running > 0 && !(options.stop && options.stop())) {
    side_a.act(boards, team_a, first, actions);
    side_b.act(boards, team_b, first, actions);
    for (std::size_t k = 0; k < count; ++k) {
      if (boards[k].done()) continue;
      game::PhiloxChance chance(options.seed, static_cast<std::uint64_t>(first) + k);
      const game::StepResult played = game::step(boards[k], actions[k], chance);
      if (options.on_step)
        options.on_step(first + static_cast<std::int64_t>(k), actions[k], played, boards[k]);
      if (options.watch) options.watch(first + static_cast<std::int64_t>(k), boards[k]);
      ++result.steps;
      if (!boards[k].done()) continue;
      --running;
      const int score_a = boards[k].team_return(team_a[k]), score_b = boards[k].team_return(team_b[k]);
      ++result.games;
      result.wins += score_a > score_b;
      result.draws += score_a == score_b;
      result.losses += score_a < score_b;
      result.score_a += score_a;
      result.score_b += score_b;
    }
  }
  return result;
}

}  // namespace

void MatchResult::add(const MatchResult& other) {
  games += other.games;
  wins += other.wins;
  draws += other.draws;
  losses += other.losses;
  score_a += other.score_a;
  score_b += other.score_b;
  steps += other.steps;
}

double MatchResult::win_rate() const {
  return games == 0 ? 0.0 : static_cast<double>(wins) / static_cast<double>(games);
}

MatchResult play_match(const Player& a, const Player& b, const MatchOptions& options) {
  MatchResult all;
  for (std::int64_t first = 0; first < options.games; first += kBlock) {
    if (options.stop && options.stop()) break;
    if (first / kBlock % options.parts == options.part) all.add(play_block(a, b, options, first));
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

}  // namespace snake_ddp::rollout
