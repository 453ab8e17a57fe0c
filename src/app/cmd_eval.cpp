#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/board_text.hpp"
#include "app/command_line.hpp"
#include "app/ladder.hpp"
#include "app/recording.hpp"
#include "app/team.hpp"
#include "app/terminal.hpp"
#include "dist/context.hpp"
#include "dist/signals.hpp"
#include "dist/world.hpp"
#include "io/game_log.hpp"
#include "nets/precision.hpp"
#include "pretrain/board_set.hpp"
#include "snake_ddp/core/bf16.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/play/elo.hpp"
#include "train/judge.hpp"

namespace snake_ddp::app {
namespace {

struct EvalArgs : RecordingOptions {
  std::vector<std::string> ladder;
  std::string anchor;
  std::vector<double> sprt;  // elo0, elo1
  bool mask_fatal = false;
  std::optional<int> view_radius;
  std::string products = "float32";
  bool json = false;
  int show = 0;
  bool watch = false;
  double speed = 8, join_timeout = 300;
};

/// Shows the first game as it is played.
void watch_game(const EvalArgs& line, play::MatchOptions& match) {
  const auto show = [=](const game::State& state, const io::PerSnake& hit) {
    const game::Position position = game::position_of(state);
    show_moment({position, names_of(line, 0), position.returns, state.step() - 1, hit}, line.speed);
  };
  match.watch = [show](std::int64_t number, const game::State& state) {
    if (number == 0 && state.step() == 1) show(state, {});
  };
  match.on_step = [show](std::int64_t number, const game::Actions&, const game::StepResult& result,
                         const game::State& after) {
    io::PerSnake hit{};
    std::copy(std::begin(result.hit), std::end(result.hit), hit.begin());
    if (number == 0) show(after, hit);
  };
}

/// By cause, summed over all games.
nlohmann::ordered_json json_of(const play::DeathSums& sums) {
  nlohmann::ordered_json causes;
  for (std::size_t k = 0; k < play::kDeathKinds; ++k) {
    const auto& [early, late] = sums.of[k];
    causes[std::string(play::kDeaths[k].name)] = {{"early", early.deaths},
                                                  {"late", late.deaths},
                                                  {"length_early", early.length},
                                                  {"length_late", late.length}};
  }
  return causes;
}

void print_deaths(const play::MatchResult& r) {
  const auto a_game = [&](std::int64_t sum) {
    return static_cast<double>(sum) / static_cast<double>(r.games);
  };
  const auto row = [&](std::string_view text, play::DeathSums::Sum a, play::DeathSums::Sum b) {
    core::print_result(fmt::format("{:<30}{:>8.2f}{:>13.2f}{:>9.2f}{:>13.2f}\n", text, a_game(a.deaths),
                                   a_game(a.length), a_game(b.deaths), a_game(b.length)));
  };
  core::print_result(fmt::format("{:<30}{:>8}{:>13}{:>9}{:>13}\n", "deaths per game", "team a", "length lost",
                                 "team b", "length lost"));
  for (const play::DeathGroup& group : play::kDeathGroups)
    row(group.text, r.deaths_a.group(group.name), r.deaths_b.group(group.name));
  row("all", r.deaths_a.total(), r.deaths_b.total());
  row(fmt::format("of these after step {}", play::kLastEarlyStep), r.deaths_a.total(1), r.deaths_b.total(1));
}

void print(const EvalArgs& line, const play::MatchResult& r, double steps_per_second,
           const std::vector<std::string>& lost) {
  if (line.json) {
    nlohmann::ordered_json out = result_json(r);
    out["deaths_a"] = json_of(r.deaths_a);
    out["deaths_b"] = json_of(r.deaths_b);
    out["steps_per_second"] = steps_per_second;
    if (!line.record.empty()) out["lost"] = lost;
    core::print_result(fmt::format("{}\n", out.dump()));
    return;
  }
  const play::Interval ci = play::wilson_interval(r.wins, r.games);
  core::print_result(fmt::format("{} against {}: {}, {} won, {} drawn, {} lost\n", line.team_a, line.team_b,
                                 core::counted(r.games, "game"), r.wins, r.draws, r.losses));
  core::print_result(fmt::format(
      "win rate {:.1f} % (95 % interval {:.1f} to {:.1f}), mean score {:.2f} : {:.2f}, {:.0f} steps/s\n",
      100 * r.win_rate(), 100 * ci.low, 100 * ci.high, r.mean_a(), r.mean_b(), steps_per_second));
  print_deaths(r);
  if (lost.empty()) return;
  constexpr std::size_t kMost = 8;
  const std::size_t shown = std::min(lost.size(), kMost);
  core::print_result(
      fmt::format("lost: {}{}\n", fmt::join(lost.begin(), lost.begin() + shown, " "),
                  lost.size() > shown ? fmt::format(" and {} more", lost.size() - shown) : ""));
}

/// Rounds of games until the test decides, at most line.games.
void play_sprt(const EvalArgs& line, const Team& a, const Team& b, dist::DistContext& context) {
  constexpr std::int64_t kRound = 8 * play::kBlock;
  const play::Sprt test{line.sprt[0], line.sprt[1]};
  play::MatchResult all;
  double ratio = 0;
  Progress progress("Playing", context.is_main());
  for (std::int64_t round = 0; all.games < line.games && std::abs(ratio) < play::sprt_bound(); ++round) {
    play::MatchOptions match{std::min(kRound, (line.games - all.games + 1) / 2 * 2),
                             static_cast<std::uint64_t>(line.seed + round), true, true};
    const std::optional<play::MatchResult> played =
        train::judge(a.player, b.player, match, context, dist::stop_requested);
    if (!played) throw core::Stopped("stopped by a signal before the test was decided; there is no result");
    all.add(*played);
    ratio = play::log_likelihood_ratio(all.pairs, test);
    progress.show(std::max(std::abs(ratio) / play::sprt_bound(),
                           static_cast<double>(all.games) / static_cast<double>(line.games)));
  }
  if (!context.is_main()) return;
  const std::string verdict = ratio >= play::sprt_bound()    ? "above elo0"
                              : ratio <= -play::sprt_bound() ? "below elo1"
                                                             : "undecided";
  const play::Rating rating = play::fit_elo(2, {{0, 1, all.wins, all.draws, all.losses}}, 1).front();
  if (line.json) {
    nlohmann::ordered_json out = result_json(all);
    out["pairs"] = all.pairs;
    out["elo"] = {rating.elo, rating.low, rating.high};
    out["log_likelihood_ratio"] = ratio;
    out["verdict"] = verdict;
    core::print_result(fmt::format("{}\n", out.dump()));
    return;
  }
  core::print_result(fmt::format(
      "{} against {}: {}, {} won, {} drawn, {} lost\n{:+.1f} Elo (95 % interval {:+.1f} to {:+.1f}), "
      "pairs from two losses to two wins: {}\n",
      line.team_a, line.team_b, core::counted(all.games, "game"), all.wins, all.draws, all.losses, rating.elo,
      rating.low, rating.high, fmt::join(all.pairs, " ")));
  core::print_result(fmt::format(
      "log-likelihood ratio of {:+g} to {:+g} Elo {:.2f}, bounds +-{:.2f}: {}\n", test.elo1, test.elo0, ratio,
      play::sprt_bound(),
      ratio >= play::sprt_bound() ? fmt::format("stronger than {:+g} Elo", test.elo0)
      : ratio <= -play::sprt_bound()
          ? fmt::format("weaker than {:+g} Elo", test.elo1)
          : fmt::format("undecided after {}, play more with --games", core::counted(all.games, "game"))));
}

void check_ladder(const EvalArgs& line) {
  if (!line.team_a.empty() || !line.team_b.empty())
    throw core::UsageError("--ladder has its own list of teams: use it without --team_a and --team_b");
  if (line.show > 0 || line.watch || !line.record.empty() || line.explain || !line.record_boards.empty() ||
      line.view_radius)
    throw core::UsageError(
        "--show, --watch, --record, --explain, --record_boards and --view_radius need two teams: use them "
        "without --ladder");
  if (!line.sprt.empty()) throw core::UsageError("--sprt needs two teams: use it without --ladder");
}

void check_match(const EvalArgs& line) {
  if (!line.sprt.empty() && !(line.sprt[0] < line.sprt[1]))
    throw core::UsageError(
        fmt::format("--sprt {} {}: the first must be lower, such as 0 10", line.sprt[0], line.sprt[1]));
  if (!line.sprt.empty() && (line.show > 0 || line.watch || !line.record.empty() ||
                             !line.record_boards.empty() || !line.swap_sides))
    throw core::UsageError(
        "--sprt cannot be combined with --show, --watch, --record, --record_boards or --no_swap_sides");
  if (!line.anchor.empty()) throw core::UsageError("--anchor is for --ladder");
  if (line.team_a.empty() || line.team_b.empty())
    throw core::UsageError("eval needs --team_a and --team_b, or --ladder");
  if (line.explain && line.record.empty())
    throw core::UsageError("--explain writes into the game logs: name a folder for them with --record DIR");
  if (line.show > 0 && line.json)
    throw core::UsageError("--show cannot be combined with --json, which prints one object and nothing else");
  if (line.watch && (line.json || line.show > 0))
    throw core::UsageError("--watch cannot be combined with --json or --show");
  if (!line.record_boards.empty() && !line.record_boards.ends_with(pretrain::kBoardSetEnding))
    throw core::UsageError(fmt::format("--record_boards {}: the file's name must end in {}",
                                       line.record_boards, pretrain::kBoardSetEnding));
}

Team team_of(const EvalArgs& line, const std::string& spec) {
  Team team = team_from_spec(spec, line.mask_fatal);
  play::ObsSpec& obs_spec = team.player.obs_spec;
  if (line.view_radius && obs_spec.kind == game::ObsKind::kWindow && !obs_spec.tokens)
    obs_spec.view_radius = *line.view_radius;
  return team;
}

void eval_two(const EvalArgs& line) {
  const Team a = team_of(line, line.team_a), b = team_of(line, line.team_b);
  at::set_num_threads(1);
  dist::DistContext context(dist::this_world(dist::Purpose::kOther), group_of_matches(line.join_timeout));
  if (context.is_main())
    for (const Team* team : {&a, &b}) tell_remark(*team);
  if (!line.sprt.empty()) return play_sprt(line, a, b, context);

  const auto begin = std::chrono::steady_clock::now();
  play::MatchOptions match{line.games, static_cast<std::uint64_t>(line.seed), line.swap_sides, 0, 1};
  if (line.show > 0) {
    match.watch = [&](std::int64_t number, const game::State& state) {
      if (number == 0 && state.step() == line.show)
        core::print_result(fmt::format("{}\n", game::picture(state)));
    };
  }
  if (line.watch && context.is_main()) watch_game(line, match);
  Recording recording(line, match, context);
  std::optional<Progress> progress;
  progress.emplace("Playing", context.is_main() && !line.watch);
  match.progress = [&](double share) { progress->show(share); };
  const std::optional<play::MatchResult> played =
      train::judge(a.player, b.player, match, context, dist::stop_requested);
  progress.reset();
  if (!played) throw core::Stopped("stopped by a signal before all games were played; there is no result");
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const std::vector<std::string> lost = recording.complete(context);
  // The other ranks need not wait for the reader of this.
  if (context.is_main()) print(line, *played, static_cast<double>(played->steps) / passed, lost);
}

}  // namespace

Action add_eval(CLI::App& command) {
  const auto line = std::make_shared<EvalArgs>();
  std::string footer = "Scripted teams:\n";
  for (const game::OpponentEntry& entry : game::kOpponents)
    footer += fmt::format("{}\t{}\n", entry.name, entry.rule);
  command.footer(footer);
  const auto under = [&](const char* heading) { command.option_defaults()->group(heading); };
  under("Teams");
  command
      .add_option(
          "--team_a,--team-a", line->team_a,
          fmt::format("random, a scripted team, an actor_*.pth (moves sampled), PATH:argmax, or, for a "
                      "Q-network, PATH:SEARCH with a search of these: {}",
                      play::kSpecForms))
      ->option_text("TEAM");
  command.add_option("--team_b,--team-b", line->team_b, "the other team")->option_text("TEAM");
  command
      .add_option("--ladder", line->ladder,
                  "instead of these two: play all pairs of several teams and rate them by Elo")
      ->option_text("TEAM TEAM ...");
  command
      .add_option("--anchor", line->anchor, "team of --ladder whose rating is 0 Elo [the mean of all is 0]")
      ->option_text("TEAM");
  command.add_flag("--mask_fatal,--mask-fatal", line->mask_fatal,
                   "trained actors make no fatal move; Q-networks never do");
  command
      .add_option("--view_radius,--view-radius", line->view_radius,
                  "view radius of teams with --obs window; 0: unlimited [as the file says, else unlimited]. "
                  "Teams with tokens use that of their training")
      ->check(CLI::Range(0, 10))
      ->option_text("N");
  command
      .add_option(
          "--products", line->products,
          "precision of the matmuls of Q-networks without memory: float32, or bf16, which needs AMX or "
          "AVX512-BF16")
      ->check(CLI::IsMember({"float32", "bf16"}))
      ->capture_default_str()
      ->option_text("WORD");
  under("Games");
  add_number(command, "games", line->games, "games to play; with --ladder, per pair", 1, kMostCount);
  add_number(command, "seed", line->seed, "random seed; game k depends only on the seed and k", 0, kMostSeed);
  command.add_flag("--swap_sides,--swap-sides,!--no_swap_sides,!--no-swap-sides", line->swap_sides,
                   "team a plays every other game as team B; to switch it off: --no_swap_sides [on]");
  command
      .add_option(
          "--sprt", line->sprt,
          "play until it is clear, with 5 % error each way, whether team a is stronger than team b by "
          "ELO0 at most or by ELO1 at least; each start is played twice, with sides swapped, and --games "
          "is the limit")
      ->expected(2)
      ->option_text("ELO0 ELO1");
  add_number(command, "join_timeout", line->join_timeout,
             "under torchrun, srun or mpirun: seconds that ranks wait for each other at the start", 0.1, 1e6);
  under("Output");
  command.add_flag("--json", line->json, "one JSON object on stdout");
  command.add_option("--show", line->show, "print the first game's board before this step, 1 to 201")
      ->check(CLI::Range(1, game::kMaxSteps + 1))
      ->option_text("N");
  command.add_flag("--watch", line->watch, "show the first game in the terminal as it is played");
  add_number(command, "speed", line->speed, "steps per second with --watch", 0.1, 1000.0);
  command
      .add_option("--record", line->record,
                  "write each game to this folder as a log: game_0.json, ...; those of an earlier recording "
                  "are replaced")
      ->option_text("DIR");
  command.add_flag(
      "--explain", line->explain,
      "with --record: the logs also record what teams from files saw at each move and, with a search, "
      "what they expected");
  command
      .add_option("--record_boards,--record-boards", line->record_boards,
                  "write boards of all games to this file, NAME.boards, for snake_ddp pretrain")
      ->option_text("FILE");
  add_number(command, "board_interval", line->board_interval,
             "steps between the boards of a game that --record_boards keeps", 1, game::kMaxSteps);
  only_with(command, "--speed", "--watch");
  only_with(command, "--board_interval", "--record_boards");
  return [line]() -> int {
    dist::watch_signals();
    if (line->products == "bf16") {
      core::require_bf16();
      nets::set_product_precision(nets::Precision::kBf16);
    }
    line->ladder.empty() ? check_match(*line) : check_ladder(*line);
    if (line->ladder.empty()) {
      eval_two(*line);
    } else {
      play_ladder({line->ladder, line->anchor, line->games, static_cast<std::uint64_t>(line->seed),
                   line->swap_sides, line->json, line->mask_fatal, line->join_timeout});
    }
    return core::kExitDone;
  };
}

}  // namespace snake_ddp::app
