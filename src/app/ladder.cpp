#include "app/ladder.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <future>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/team.hpp"
#include "app/terminal.hpp"
#include "dist/build.hpp"
#include "dist/context.hpp"
#include "dist/ranks.hpp"
#include "dist/signals.hpp"
#include "dist/world.hpp"
#include "io/atomic_file.hpp"
#include "io/fields.hpp"
#include "io/folders.hpp"
#include "io/json_text.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/play/elo.hpp"
#include "snake_ddp/play/match.hpp"
#include "train/judge.hpp"

namespace snake_ddp::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Pair {
  std::size_t a, b;
  play::MatchResult result;
};

// The results of one team's games.
struct Standing {
  std::size_t team = 0;
  play::Rating rating;
  play::MatchResult sum;  // from the team's side

  [[nodiscard]] double point_rate() const {
    return (static_cast<double>(sum.wins) + 0.5 * static_cast<double>(sum.draws)) /
           static_cast<double>(sum.games);
  }
};

void check_names(const LadderOptions& options) {
  const std::vector<std::string>& teams = options.teams;
  if (teams.size() < 2) {
    throw core::UsageError("--ladder needs two teams or more: --ladder level0 level2 PATH/actor_best.pth");
  }
  for (auto team = teams.begin(); team != teams.end(); ++team) {
    if (std::find(teams.begin(), team, *team) != team) {
      throw core::UsageError(
          fmt::format("--ladder names {} twice; a team does not play against itself", *team));
    }
  }
}

void check_identities(const LadderOptions& options, const std::vector<Team>& teams) {
  for (std::size_t b = 1; b < teams.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (teams[a].identity == teams[b].identity)
        throw core::UsageError(fmt::format(
            "--ladder names one team twice: {} and {} are the same; a team does not play against itself",
            options.teams[a], options.teams[b]));
}

std::optional<std::size_t> anchor_of(const LadderOptions& options, const std::vector<Team>& teams) {
  const std::vector<std::string>& names = options.teams;
  if (options.anchor.empty()) return std::nullopt;
  const auto anchor = std::find(names.begin(), names.end(), options.anchor);
  if (anchor != names.end()) return static_cast<std::size_t>(anchor - names.begin());
  std::error_code none;
  if (std::filesystem::exists(file_of_spec(options.anchor), none)) {
    const Team other = team_from_spec(options.anchor, options.mask_fatal);
    for (std::size_t i = 0; i < teams.size(); ++i)
      if (teams[i].identity == other.identity) return i;
  }
  const std::string near = io::nearest_name(options.anchor, names);
  throw core::UsageError(fmt::format("--anchor {} is not one of the ladder's teams{}", options.anchor,
                                     near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

play::MatchResult turned(const play::MatchResult& r) {
  return {r.games, r.losses, r.draws, r.wins, r.score_b, r.score_a, r.steps, r.deaths_b, r.deaths_a};
}

// Best first; equal ones in the order of the command line.
std::vector<Standing> standings(std::size_t teams, const std::vector<Pair>& pairs,
                                std::optional<std::size_t> anchor) {
  std::vector<play::Meeting> meetings;
  std::vector<Standing> all(teams);
  for (const Pair& p : pairs) {
    meetings.push_back({p.a, p.b, p.result.wins, p.result.draws, p.result.losses});
    all[p.a].sum.add(p.result);
    all[p.b].sum.add(turned(p.result));
  }
  const std::vector<play::Rating> ratings = play::fit_elo(teams, meetings, anchor);
  for (std::size_t i = 0; i < teams; ++i) {
    all[i].team = i;
    all[i].rating = ratings[i];
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Standing& x, const Standing& y) { return x.rating.elo > y.rating.elo; });
  return all;
}

ordered_json ladder_json(const LadderOptions& options, const std::vector<Standing>& table,
                         const std::vector<Pair>& pairs, double steps_per_second) {
  ordered_json ladder = ordered_json::array(), games = ordered_json::array();
  for (const Standing& s : table) {
    ladder.push_back({{"team", options.teams[s.team]},
                      {"elo", s.rating.elo},
                      {"elo_ci95", {s.rating.low, s.rating.high}},
                      {"games", s.sum.games},
                      {"wins", s.sum.wins},
                      {"draws", s.sum.draws},
                      {"losses", s.sum.losses},
                      {"score", s.sum.mean_a()},
                      {"opponents_score", s.sum.mean_b()}});
  }
  for (const Pair& p : pairs) {
    games.push_back({{"team_a", options.teams[p.a]}, {"team_b", options.teams[p.b]}});
    games.back().update(result_json(p.result));
  }
  return {{"ladder", ladder},
          {"pairs", games},
          {"anchor", options.anchor.empty() ? ordered_json(nullptr) : ordered_json(options.anchor)},
          {"games_per_pair", options.games},
          {"seed", options.seed},
          {"steps_per_second", steps_per_second}};
}

// Not "-0".
double rounded(double elo) { return std::nearbyint(elo) + 0.0; }

void print_table(const LadderOptions& options, const std::vector<Standing>& table,
                 std::optional<std::size_t> anchor, double steps_per_second) {
  std::size_t width = 4;
  for (const std::string& team : options.teams) width = std::max(width, team.size());
  core::print_result(fmt::format("{:<{}}  {:>6}  {:>16}  {:>7}  {:>6}  {:>6}  {:>6}  {:>13}\n", "team", width,
                                 "Elo", "95 % interval", "points", "won", "drawn", "lost", "mean score"));
  for (const Standing& s : table) {
    const bool fixed = s.team == anchor;
    const std::string interval =
        fixed ? "anchor" : fmt::format("{:.0f} to {:.0f}", rounded(s.rating.low), rounded(s.rating.high));
    core::print_result(fmt::format("{:<{}}  {:>6.0f}  {:>16}  {:>5.1f} %  {:>6}  {:>6}  {:>6}  {:>13}\n",
                                   options.teams[s.team], width, rounded(s.rating.elo), interval,
                                   100 * s.point_rate(), s.sum.wins, s.sum.draws, s.sum.losses,
                                   fmt::format("{:.2f} : {:.2f}", s.sum.mean_a(), s.sum.mean_b())));
  }
  core::print_result(fmt::format("{} of each pair, {} is 0, {:.0f} steps/s\n",
                                 core::counted(options.games, "game"),
                                 options.anchor.empty() ? "the mean" : options.anchor, steps_per_second));
}

// ---- of one run's last weights

constexpr std::uint64_t kRunSeed = 1;
constexpr std::string_view kActor = "actor_";

std::string stamp(const fs::path& file) {
  return fmt::format("{} {:016x}", file.filename().string(), io::hash_of_file(file.string()));
}

ordered_json row(const std::string& name, const Team& self, const Team& other, std::int64_t games) {
  const play::MatchResult r = rollout::play_match(self.player, other.player, {games, kRunSeed});
  const play::Interval ci = play::wilson_interval(r.wins, r.games);
  ordered_json deaths;
  for (const play::DeathGroup& group : play::kDeathGroups)
    deaths[std::string(group.name)] = r.deaths_a.group(group.name).deaths;
  return {{"team", name},        {"games", r.games},
          {"wins", r.wins},      {"draws", r.draws},
          {"losses", r.losses},  {"win_rate", r.win_rate()},
          {"low", ci.low},       {"high", ci.high},
          {"score", r.mean_a()}, {"opponents_score", r.mean_b()},
          {"deaths", deaths}};
}

ordered_json play_all(const fs::path& actor, const std::string& champion, std::int64_t games) {
  // One thread per row, with teams of its own, because the user waits for the page.
  std::vector<std::future<ordered_json>> matches;
  const auto begin = [&](const std::string& name, const std::string& spec) {
    matches.push_back(std::async(std::launch::async, [actor, games, name, spec] {
      at::set_num_threads(1);  // of this thread's products
      return row(name, team_from_spec(actor.string()), team_from_spec(spec), games);
    }));
  };
  for (const game::OpponentEntry& entry : game::kOpponents)
    begin(std::string(entry.name), std::string(entry.name));
  if (!champion.empty()) begin("champion", champion);
  ordered_json rows = ordered_json::array();
  for (std::future<ordered_json>& match : matches) rows.push_back(match.get());
  return rows;
}

// Whether the page can show it.
bool is_ladder(const ordered_json& ladder) {
  const auto has_numbers = [](const ordered_json& object, std::initializer_list<const char*> names) {
    return std::all_of(names.begin(), names.end(),
                       [&](const char* name) { return object.contains(name) && object[name].is_number(); });
  };
  const auto has_text = [](const ordered_json& object, const char* name) {
    return object.contains(name) && object[name].is_string();
  };
  const auto is_row = [&](const ordered_json& row) {
    return row.is_object() && has_text(row, "team") &&
           has_numbers(row, {"games", "wins", "draws", "losses", "win_rate", "low", "high", "score",
                             "opponents_score"}) &&
           row.contains("deaths") && row["deaths"].is_object() && !row["deaths"].empty() &&
           std::all_of(row["deaths"].begin(), row["deaths"].end(),
                       [](const ordered_json& count) { return count.is_number(); });
  };
  return ladder.is_object() && ladder.contains("of") && has_text(ladder, "actor") &&
         has_numbers(ladder, {"games", "seed"}) && ladder.contains("rows") && ladder["rows"].is_array() &&
         std::all_of(ladder["rows"].begin(), ladder["rows"].end(), is_row);
}

ordered_json stored(const std::string& path) {
  try {
    ordered_json ladder = io::parse_ordered_json(io::read_file(path));
    if (is_ladder(ladder)) return ladder;
  } catch (const core::FileError&) {  // missing or unusable: it is played again
  }
  return ordered_json::object();
}

// The weights that a run saved last; empty if there are none.
fs::path last_actor(const std::string& folder) {
  fs::path last;
  std::int64_t last_episode = -1;  // the files' times are those of a copy or of an unpacked archive
  for (const std::string& name : io::names_in(folder + "/trained_model")) {
    const fs::path path = fs::path(folder) / "trained_model" / name;
    if (!name.starts_with(kActor) || path.extension() != ".pth") continue;
    const auto episode = core::try_number<std::int64_t>(path.stem().string().substr(kActor.size()));
    if (!episode || *episode <= last_episode || !io::is_there(path.string())) continue;  // a link to nothing
    last = path;
    last_episode = *episode;
  }
  return last;
}

}  // namespace

void play_ladder(const LadderOptions& options) {
  check_names(options);
  std::vector<Team> teams;
  for (const std::string& spec : options.teams) teams.push_back(team_from_spec(spec, options.mask_fatal));
  check_identities(options, teams);
  const std::optional<std::size_t> anchor = anchor_of(options, teams);
  std::vector<Pair> pairs;
  std::vector<train::Pairing> pairings;
  for (std::size_t a = 0; a < teams.size(); ++a) {
    for (std::size_t b = a + 1; b < teams.size(); ++b) {
      pairs.push_back({a, b, {}});
      pairings.push_back({&teams[a].player, &teams[b].player});
    }
  }
  at::set_num_threads(1);
  dist::DistContext context(dist::this_world(dist::Purpose::kOther),
                            group_of_matches(options.join_timeout_s));
  if (context.is_main()) std::for_each(teams.begin(), teams.end(), tell_remark);
  const auto begin = std::chrono::steady_clock::now();
  play::MatchOptions match{options.games, options.seed, options.swap_sides};
  std::optional<Progress> progress;
  progress.emplace("Playing", context.is_main());
  match.progress = [&](double share) { progress->show(share); };
  const auto results = train::judge_all(pairings, match, context, dist::stop_requested);
  progress.reset();
  if (!results) throw core::Stopped("stopped by a signal before all games were played; there is no result");
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  context.barrier("end of eval", context.deadline());
  if (context.is_main()) {  // the others need not wait for the reader of this
    std::int64_t steps = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      pairs[i].result = (*results)[i];
      steps += pairs[i].result.steps;
    }
    const double steps_per_second = static_cast<double>(steps) / passed;
    const std::vector<Standing> table = standings(teams.size(), pairs, anchor);
    if (options.json) {
      core::print_result(fmt::format("{}\n", ladder_json(options, table, pairs, steps_per_second).dump()));
    } else {
      print_table(options, table, anchor, steps_per_second);
    }
  }
}

dist::Options group_of_matches(double join_timeout_s) {
  dist::Options group;
  group.device = "cpu";
  group.fingerprint = dist::build_text();
  group.stopping = dist::stop_requested;
  group.join_timeout = dist::seconds_to_ms(join_timeout_s);
  return group;
}

nlohmann::ordered_json result_json(const play::MatchResult& result) {
  const play::Interval ci = play::wilson_interval(result.wins, result.games);
  return {{"games", result.games},      {"wins", result.wins},           {"draws", result.draws},
          {"losses", result.losses},    {"win_rate", result.win_rate()}, {"win_rate_ci95", {ci.low, ci.high}},
          {"score_a", result.mean_a()}, {"score_b", result.mean_b()}};
}

ordered_json run_ladder(const std::string& folder, const std::string& champion, std::int64_t games,
                        bool is_running) {
  const std::string path = folder + "/ladder.json";
  try {
    const fs::path actor = last_actor(folder);
    ordered_json known = stored(path);
    if (actor.empty()) return {{"why", "No weights are saved yet."}};
    const ordered_json of = {
        {"actor", stamp(actor)}, {"champion", champion.empty() ? "" : stamp(champion)}, {"games", games}};
    if (known.value("of", ordered_json()) == of || (is_running && known.contains("rows"))) return known;
    if (is_running)
      return {{"why", "The run is still active: the first report after its end plays its ladder."}};
    if (games == 0) return {{"why", "Turned off (--ladder_games 0)."}};
    ordered_json ladder = {{"of", of},
                           {"actor", actor.filename().string()},
                           {"games", games},
                           {"seed", kRunSeed},
                           {"rows", play_all(actor, champion, games)}};
    try {
      io::write_json(path, ladder);
    } catch (const core::FileError&) {  // a read-only folder: it is played again each time
    }
    return ladder;
  } catch (const core::Error& e) {  // weights from another version, or a file that is damaged
    return {{"why", fmt::format("Could not be played: {}", e.what())}};
  }
}

}  // namespace snake_ddp::app
