#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "snake_ddp/app/command_line.hpp"
#include "snake_ddp/app/ladder.hpp"
#include "snake_ddp/app/team.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/dist/world.hpp"
#include "snake_ddp/train/judge.hpp"

namespace snake_ddp::app {
namespace {

struct Line {
  std::string team_a, team_b;
  std::vector<std::string> ladder;
  std::string anchor;
  std::int64_t games = 200;
  std::uint64_t seed = 1;
  bool swap_sides = true;
  bool json = false;
  int show = 0;
};

void print(const Line& line, const rollout::MatchResult& r, double steps_per_second) {
  const rollout::Interval ci = rollout::wilson_interval(r.wins, r.games);
  const double games = static_cast<double>(r.games);
  const double score_a = static_cast<double>(r.score_a) / games,
               score_b = static_cast<double>(r.score_b) / games;
  if (line.json) {
    const nlohmann::ordered_json out = {
        {"games", r.games},   {"wins", r.wins},           {"draws", r.draws},
        {"losses", r.losses}, {"win_rate", r.win_rate()}, {"win_rate_ci95", {ci.low, ci.high}},
        {"score_a", score_a}, {"score_b", score_b},       {"steps_per_second", steps_per_second}};
    fmt::print("{}\n", out.dump());
    return;
  }
  fmt::print("{} against {}: {} games, {} won, {} drawn, {} lost\n", line.team_a, line.team_b, r.games,
             r.wins, r.draws, r.losses);
  fmt::print(
      "win rate {:.1f} % (95 % interval {:.1f} to {:.1f}), mean score {:.2f} : {:.2f}, {:.0f} steps/s\n",
      100 * r.win_rate(), 100 * ci.low, 100 * ci.high, score_a, score_b, steps_per_second);
}

}  // namespace

Action add_eval(CLI::App& command) {
  const auto line = std::make_shared<Line>();
  command.add_option("--team_a,--team-a", line->team_a,
                     "random, level0 to level4, evasion, an actor_*.pth (moves sampled), or PATH:argmax");
  command.add_option("--team_b,--team-b", line->team_b, "the other team");
  command.add_option("--ladder", line->ladder,
                     "instead of two teams: all of these against each other, rated by Elo");
  command.add_option("--anchor", line->anchor, "the team of --ladder that has 0 Elo [the mean has]");
  command.add_option("--games", line->games, "games to play; with --ladder, of each pair")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
  command.add_option("--seed", line->seed, "game k depends on the seed and k alone")->capture_default_str();
  command.add_flag("--swap_sides,--swap-sides,!--no_swap_sides,!--no-swap-sides", line->swap_sides,
                   "team a plays every second game as team B [on]");
  command.add_option("--show", line->show, "print the first game's board before this step, 1 to 201")
      ->check(CLI::Range(1, game::kMaxSteps + 1));
  command.add_flag("--json", line->json, "one JSON object on stdout");
  return [line]() -> int {
    if (!line->ladder.empty()) {
      if (!line->team_a.empty() || !line->team_b.empty() || line->show > 0)
        throw base::UsageError("--ladder names its teams itself: without --team_a, --team_b and --show");
      play_ladder({line->ladder, line->anchor, line->games, line->seed, line->swap_sides, line->json});
      return base::kExitDone;
    }
    if (!line->anchor.empty()) throw base::UsageError("--anchor is for --ladder");
    if (line->team_a.empty() || line->team_b.empty())
      throw base::UsageError("eval needs --team_a and --team_b, or --ladder");
    if (line->show > 0 && line->json)
      throw base::UsageError("--show prints a board, --json nothing but an object: choose");
    const Team a = team_from_spec(line->team_a), b = team_from_spec(line->team_b);
    at::set_num_threads(1);
    dist::Options options;
    options.device = "cpu";
    dist::DistContext context(dist::world_from_env([](const char* name) { return std::getenv(name); }),
                              options);
    const auto begin = std::chrono::steady_clock::now();
    rollout::MatchOptions match{line->games, line->seed, line->swap_sides, 0, 1};
    if (line->show > 0) {
      match.watch = [&](std::int64_t number, const game::State& state) {
        if (number == 0 && state.step() == line->show) fmt::print("{}\n", game::picture(state));
      };
    }
    const rollout::MatchResult result = train::judge(a.player, b.player, match, context);
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (context.is_main()) print(*line, result, static_cast<double>(result.steps) / passed);
    context.barrier("end of eval", context.deadline());
    return base::kExitDone;
  };
}

}  // namespace snake_ddp::app
