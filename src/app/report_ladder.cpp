#include "report_ladder.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <initializer_list>
#include <vector>

#include "snake_ddp/agents/opponents.hpp"
#include "snake_ddp/app/team.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/text.hpp"
#include "snake_ddp/records/atomic_file.hpp"
#include "snake_ddp/records/folders.hpp"
#include "snake_ddp/records/json_text.hpp"

namespace snake_ddp::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::uint64_t kSeed = 1;
constexpr std::string_view kActor = "actor_";

std::string stamp(const fs::path& file) {
  return fmt::format("{} {:016x}", file.filename().string(), records::hash_of_file(file.string()));
}

ordered_json row(const std::string& name, const Team& self, const Team& other, std::int64_t games) {
  const play::MatchResult r = rollout::play_match(self.player, other.player, {games, kSeed});
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
  for (const agents::OpponentEntry& entry : agents::kOpponents)
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
    ordered_json ladder = records::parse_ordered_json(records::read_file(path));
    if (is_ladder(ladder)) return ladder;
  } catch (const base::FileError&) {  // missing or unusable: it is played again
  }
  return ordered_json::object();
}

// The weights that a run saved last; empty if there are none.
fs::path last_actor(const std::string& folder) {
  fs::path last;
  std::int64_t last_episode = -1;  // the files' times are those of a copy or of an unpacked archive
  for (const std::string& name : records::names_in(folder + "/trained_model")) {
    const fs::path path = fs::path(folder) / "trained_model" / name;
    if (!name.starts_with(kActor) || path.extension() != ".pth") continue;
    const auto episode = base::try_number<std::int64_t>(path.stem().string().substr(kActor.size()));
    if (!episode || *episode <= last_episode || !records::is_there(path.string()))
      continue;  // a link to nothing
    last = path;
    last_episode = *episode;
  }
  return last;
}

}  // namespace

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
                           {"seed", kSeed},
                           {"rows", play_all(actor, champion, games)}};
    try {
      records::write_json(path, ladder);
    } catch (const base::FileError&) {  // a read-only folder: it is played again each time
    }
    return ladder;
  } catch (const base::Error& e) {  // weights from another version, or a file that is damaged
    return {{"why", fmt::format("Could not be played: {}", e.what())}};
  }
}

}  // namespace snake_ddp::app
