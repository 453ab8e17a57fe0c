#include "train/resume.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

#include "io/atomic_file.hpp"
#include "io/file_error.hpp"
#include "io/folders.hpp"
#include "io/json_text.hpp"
#include "io/run_folder.hpp"
#include "io/state_dict.hpp"
#include "learners/learner.hpp"
#include "periodic.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"
#include "train/averaging.hpp"
#include "train/stored_rows.hpp"
#include "weights.hpp"

namespace snake_ddp::train {
namespace {

namespace fs = std::filesystem;
using core::FileError;
using nets::under;
using nlohmann::ordered_json;

// Settings that determine the tensors of a checkpoint.
constexpr std::array kFixed = {"game_name", "algo", "obs", "hidden_size", "output_activation", "layer_norm"};

nets::NamedTensors read_part(const std::string& folder, const std::string& name,
                             const io::Manifest& manifest) {
  const io::Seal* seal = manifest.find(name);
  if (seal == nullptr) throw FileError(fmt::format("{} does not list {}", folder, name));
  const std::string path = folder + "/" + name;
  return io::read_state_dict(io::read_sealed(path, *seal), path);
}

// What this rank reads from a checkpoint before all agree that it is complete.
struct Taken {
  nets::NamedTensors shared;              // rank 0
  std::optional<nets::NamedTensors> own;  // of this rank's number; none if the checkpoint has none
  std::int64_t rows = 0;                  // now in replay
  bool replay_as_it_was = false;          // row for row
};

Taken take(const std::string& folder, const io::Manifest& manifest, int rank, int world_size,
           learners::Buffer& replay) {
  Taken taken;
  replay.restart();
  if (rank == 0) taken.shared = read_part(folder, kSharedFile, manifest);
  if (manifest.find(rank_file(rank)) != nullptr && rank < manifest.world_size)
    taken.own = read_part(folder, rank_file(rank), manifest);
  const bool same_ranks = manifest.world_size == world_size;
  const bool linked = is_linked(replay);
  std::vector<StoredRows> parts;
  for (int r = 0; r < manifest.world_size && (same_ranks || !linked); ++r) {
    if ((same_ranks && r != rank) || manifest.find(replay_file(r)) == nullptr) continue;
    const nets::NamedTensors part =
        r == rank && taken.own ? *taken.own : read_part(folder, rank_file(r), manifest);
    StoredRows rows = open_rows(folder, r, part, manifest, replay);
    if (rows.fits) parts.push_back(std::move(rows));
  }
  taken.replay_as_it_was = fill_replay(parts, same_ranks, rank, world_size, replay);
  taken.rows = replay.size();
  return taken;
}

void check_fixed(const ordered_json& before, const ordered_json& now, const std::string& run) {
  std::vector<std::string> differences;
  for (const char* name : kFixed) {
    if (before.contains(name) && now.contains(name) && before[name] != now[name])
      differences.push_back(
          fmt::format("--{} {} (the run: {})", name, now[name].dump(), before[name].dump()));
  }
  // A symmetric network can lose its symmetry, but another one cannot gain it.
  if (now.value("mirror_symmetric", false) && !before.value("mirror_symmetric", false))
    differences.emplace_back("--mirror_symmetric (the run: without)");
  if (!differences.empty()) {
    throw core::UsageError(
        fmt::format("{} cannot continue with {}: its checkpoints hold different networks. Use "
                    "the run's own values, or start a new run with --resume never",
                    run, fmt::join(differences, ", ")));
  }
}

std::string changes(const ordered_json& before, const ordered_json& now) {
  std::vector<std::string> list;
  for (const auto& [name, value] : now.items()) {
    if (name == "resume" || !before.contains(name) || before[name] == value) continue;
    list.push_back(fmt::format("--{} {} -> {}", name, before[name].dump(), value.dump()));
  }
  return fmt::format("{}", fmt::join(list, ", "));
}

struct Found {
  std::string folder;
  io::Manifest manifest;  // empty if this rank does not see the folder
  Taken taken;
};

// Why a rank could not resume from a checkpoint; `why` is empty if it could.
struct Failure {
  bool damage = false;  // proven
  std::string why;
};

// The verdict of all ranks: damage only if each of them could read the checkpoint.
Failure agreed(const Failure& mine, dist::DistContext& context) {
  std::vector<std::string> damaged, unable;
  const std::vector<std::string> all = context.gather(
      mine.why.empty() ? "" : (mine.damage ? "damaged:" : "unable:") + mine.why, context.deadline());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    const std::size_t colon = all[rank].find(':');
    (all[rank].starts_with("damaged") ? damaged : unable)
        .push_back(
            fmt::format("rank {} on {}: {}", rank, context.hosts()[rank], all[rank].substr(colon + 1)));
  }
  const std::string unable_text =
      context.broadcast_text(fmt::format("{}", fmt::join(unable, "; ")), context.deadline());
  if (!unable_text.empty()) return {false, unable_text};
  return {true, context.broadcast_text(damaged.empty() ? "" : damaged.front(), context.deadline())};
}

// Runs `work` on rank 0. A FileError there is thrown on every rank.
void on_main(dist::DistContext& context, const std::function<void()>& work) {
  Failure failure;
  try {
    if (context.is_main()) work();
  } catch (const FileError& e) {
    failure.why = e.what();
  }
  failure = agreed(failure, context);
  if (!failure.why.empty()) throw FileError(failure.why);
}

// For a checkpoint that is not damaged, but that some rank cannot use.
FileError cannot_go_on(const std::string& folder, const std::string& why, const std::string& older) {
  const std::string_view sentence(why);
  return FileError(fmt::format(
      "cannot resume from {}: {}. It may be undamaged, so it keeps its name. Fix the cause and start again{}",
      folder, sentence.ends_with('.') ? sentence.substr(0, sentence.size() - 1) : sentence,
      older.empty() ? "" : ", or resume from the previous one with --resume " + older));
}

void check_owner(const io::Manifest& manifest, const std::string& identity, const std::string& folder) {
  if (identity.empty() || manifest.run == identity) return;
  throw FileError(fmt::format(
      "{} is a checkpoint of another run ({}; this one is {}). Move it elsewhere; --load_model starts "
      "a run from another run's weights",
      folder, manifest.run, identity));
}

// The named checkpoint, or the newest that is complete for every rank.
Found newest_whole(const Origin& origin, const dist::Access& access, const RunState& state,
                   const ordered_json& settings, dist::DistContext& context,
                   std::vector<std::string>& lines) {
  const std::string& run = origin.place.run;
  const bool named = !origin.place.checkpoint.empty();
  std::string listed;
  if (context.is_main() && !named) listed = fmt::format("{}", fmt::join(io::checkpoints_of(run), " "));
  std::istringstream list(context.broadcast_text(listed, context.deadline()));
  const std::vector<std::int64_t> steps{std::istream_iterator<std::int64_t>(list), {}};
  std::vector<std::string> folders, reasons;
  if (named) folders.push_back(io::checkpoint_folder(run, origin.place.checkpoint));
  for (const std::int64_t step : steps) folders.push_back(io::checkpoint_folder(run, step));
  for (std::size_t i = 0; i < folders.size(); ++i) {
    Found found{folders[i], {}, {}};
    Failure failure{false, access.unreadable};
    if (access.sees) {
      try {
        found.manifest = io::read_manifest(found.folder);
        check_owner(found.manifest, origin.identity, found.folder);
        check_fixed(found.manifest.settings, settings, run);
        found.taken = take(found.folder, found.manifest, context.rank(), context.size(), state.replay);
      } catch (const io::DamagedFile& e) {
        failure = {true, e.what()};
      } catch (const FileError& e) {
        failure = {false, e.what()};
      }
    }
    const Failure all = agreed(failure, context);
    if (all.why.empty()) return found;
    if (!all.damage) throw cannot_go_on(found.folder, all.why, i + 1 < folders.size() ? folders[i + 1] : "");
    if (named) throw FileError(fmt::format("{} is damaged: {}", found.folder, all.why));
    if (context.is_main()) {
      const std::string aside = io::set_aside(run, steps[i]);
      lines.push_back(fmt::format("Checkpoint step {} is damaged: {}{}", steps[i], all.why,
                                  aside.empty() ? "" : "; it is now " + aside));
    }
    reasons.push_back(all.why);
  }
  std::string refusal;
  if (context.is_main()) refusal = nothing_whole(run, reasons, io::damaged_checkpoints_of(run));
  throw FileError(context.broadcast_text(refusal, context.deadline()));
}

// Intervals of another length, and of jobs that the run did not have, are counted from the checkpoint on.
Counters recounted(Counters counters, const io::Manifest& then, const ordered_json& now) {
  for (const Job& job : jobs()) {
    const auto length = now.at(job.interval).get<std::int64_t>();
    if (then.settings.contains(job.interval) && then.settings[job.interval] == length) continue;
    const std::int64_t done = job.unit == Job::Unit::kUpdates ? counters.updates : then.episode;
    counters.jobs[job.counter] = length > 0 ? done / length : 0;
  }
  return counters;
}

// Progress in games, of a rank whose part of the checkpoint does not have it.
rollout::GameCount games_in(const nets::NamedTensors& state, const std::string& what) {
  const nets::StateReader there(state, what);
  return {there.number<std::int64_t>("started"), there.number<std::int64_t>("ended"),
          there.number<double>("epsilon")};
}

// What a rank needs that the checkpoint does not know, or knows with an older setting.
struct Games {
  rollout::GameCount of_main;     // rank 0's
  std::optional<double> epsilon;  // another --epsilon than the run's starts every rank's decay again
};

// The shared part from rank 0 to all.
Games share(const Found& found, const RunState& state, const ordered_json& settings,
            dist::DistContext& context) {
  std::string counters;
  on_main(context, [&] {
    nets::copy_state(under(found.taken.shared, "learner."), state.learner.state(), "the checkpoint");
    state.learner.state_changed();
    nets::NamedTensors small;
    for (const auto& item : found.taken.shared) {
      if (!item.first.starts_with("learner.") && !item.first.starts_with("counters.")) small.push_back(item);
    }
    const ordered_json& before = found.manifest.settings;
    if (before.contains("epsilon") && before["epsilon"] != settings.at("epsilon"))
      small.emplace_back("another_epsilon",
                         at::scalar_tensor(settings["epsilon"].get<double>(), at::kDouble));
    const Counters then = counters_from(under(found.taken.shared, "counters."), "the checkpoint");
    nets::add_under(small, "counters.", to_state(recounted(then, found.manifest, settings)));
    counters = io::state_dict_bytes(small);
  });
  share_weights(state.learner, context);
  const nets::NamedTensors small =
      io::read_state_dict(context.broadcast_text(counters, context.deadline()), "the checkpoint's counters");
  state.counters = counters_from(under(small, "counters."), "the checkpoint");
  // A run that had no league, or whose mix has none now, starts with a fresh one.
  const nets::NamedTensors league = under(small, "league.");
  if (!league.empty() && !state.league.members().empty())
    state.league.restore(league, "the checkpoint's league");
  state.averaging.restore(under(small, "averaging."), "the checkpoint");
  state.files.check(under(small, "files."));
  Games games{games_in(under(small, "games."), "the checkpoint"), std::nullopt};
  if (const at::Tensor* epsilon = nets::find(small, "another_epsilon"))
    games.epsilon = epsilon->item<double>();
  return games;
}

// This rank's boards go on, or new ones begin after the games that it, or else rank 0, has played. Returns whether they go on.
bool restore_boards(const Found& found, const Games& games, rollout::Collector& collector, int rank) {
  const std::string what = found.folder + "/" + rank_file(rank);
  const std::optional<nets::NamedTensors>& part = found.taken.own;
  const nets::NamedTensors own = part ? under(*part, "collector.") : nets::NamedTensors();
  const bool same = part && collector.restore(own, what);
  if (!same) collector.start_new_games(part ? games_in(own, what) : games.of_main);
  if (games.epsilon) collector.explore_from(*games.epsilon);
  return same;
}

// Makes the named checkpoint the newest one, for the next start.
void take_up(const RunLocation& place, std::int64_t step, dist::DistContext& context,
             std::vector<std::string>& lines) {
  on_main(context, [&] {
    const std::vector<std::string> left = io::take_up(place.run, place.checkpoint, step);
    if (!left.empty())
      lines.push_back(fmt::format("Set aside, no longer used as checkpoints: {}", fmt::join(left, ", ")));
  });
}

// The settings that shape a rollout, and those that evaluations depend on.
constexpr std::array kRollout = {"rollout_steps", "rollout_epochs", "num_envs", "batch_size"};
constexpr std::array kEvaluation = {"eval_opponent", "eval_games", "eval_search", "seed"};

template <std::size_t kCount>
bool equal_settings(const std::array<const char*, kCount>& names, const ordered_json& before,
                    const ordered_json& now) {
  return std::all_of(names.begin(), names.end(), [&](const char* name) {
    return before.contains(name) && now.contains(name) && before[name] == now[name];
  });
}

// This rank's part of a rollout goes on, or a new one begins. Returns whether nothing is lost.
bool restore_rollout(const Found& found, const RunState& state, bool same_boards, bool same_settings) {
  if (state.rollout == nullptr) return true;
  const nets::NamedTensors rest =
      found.taken.own ? under(*found.taken.own, "rollout.") : nets::NamedTensors();
  const bool goes_on = same_boards && same_settings && !rest.empty() && state.rollout->fits(rest);
  state.rollout->restore(goes_on ? rest : nets::NamedTensors(), state.counters.updates);
  const bool is_between = state.counters.steps == state.counters.empty_at && state.counters.updates_due < 1;
  return goes_on || is_between;
}

// Whether the run's end has saved its networks.
bool is_saved(const std::string& run, const ordered_json& settings, std::int64_t episode) {
  std::error_code hidden;
  return fs::exists(fmt::format("{}/trained_model/actor_{}.pth", run,
                                settings.at("model_episode").get<std::int64_t>() + episode),
                    hidden);
}

// Why a run that has come so far is finished; empty if it is not. `episode`: -1 unless all ranks have played theirs, or all steps.
std::string why_over(const Counters& n, const ordered_json& now, const ordered_json& before,
                     std::int64_t episode) {
  if (n.updates_due >= 1.0) return {};  // a stop came within a step
  for (const Job& job : jobs()) {
    if (!job.at_end || now.at(job.interval).get<std::int64_t>() == 0) continue;
    if (n.jobs.contains(job.due) && n.jobs.at(job.due) > 0) return {};
  }
  const auto limit = now.at("max_minutes").get<double>(), target = now.at("target_win_rate").get<double>();
  const auto steps = now.at("total_steps").get<std::int64_t>();
  if (episode >= 0 && steps > 0)
    return fmt::format("step {} of {}, extend it with --total_steps", n.board_steps, steps);
  if (episode >= 0)
    return fmt::format("episode {} of {}, extend it with --max_episodes", episode,
                       now.at("max_episodes").get<std::int64_t>());
  if (limit > 0 && n.seconds > limit * 60)
    return fmt::format("{:.1f} min of {:g}, extend it with --max_minutes", n.seconds / 60, limit);
  if (target > 0 && n.best_win_rate >= target && equal_settings(kEvaluation, before, now))
    return fmt::format("it won {:.1f} % of an evaluation, extend it with --target_win_rate",
                       100 * n.best_win_rate);
  return {};
}

// What the ranks have of a checkpoint: on rank 0 all together, on the others their own.
struct Together {
  std::int64_t least_rows, rows = 0, fresh = 0;  // the fewest of a rank, the sum; ranks with new games
  bool same_rows = true, played = true;          // all rows are as they were; all ranks have played enough
};

Together together(std::int64_t own_rows, bool same_rows, bool same_boards, bool played,
                  dist::DistContext& context) {
  const ordered_json mine = {
      {"rows", own_rows}, {"same_rows", same_rows}, {"same_boards", same_boards}, {"played", played}};
  Together all{own_rows};
  for (const std::string& text : context.gather(mine.dump(), context.deadline())) {
    const ordered_json of_rank = ordered_json::parse(text);
    all.least_rows = std::min(all.least_rows, of_rank.at("rows").get<std::int64_t>());
    all.rows += of_rank.at("rows").get<std::int64_t>();
    all.same_rows = all.same_rows && of_rank.at("same_rows").get<bool>();
    all.fresh += of_rank.at("same_boards").get<bool>() ? 0 : 1;
    all.played = all.played && of_rank.at("played").get<bool>();
  }
  return all;
}

// What the log says of it.
void add_report(const Found& found, const RunState& state, const ordered_json& settings, std::int64_t rows,
                std::int64_t fresh, int ranks, std::vector<std::string>& lines) {
  const bool rollouts = state.rollout != nullptr;
  lines.push_back(fmt::format("Resumed from checkpoint step {}: episode {}, {}, {} in {}",
                              found.manifest.step, found.manifest.episode,
                              core::counted(found.manifest.updates, "update"),
                              core::counted(rows, "transition"), rollouts ? "a rollout" : "replay"));
  if (found.manifest.world_size != ranks) {
    lines.push_back(fmt::format("Changed: {} -> {}; {}", found.manifest.world_size,
                                core::counted(ranks, "rank"), dealt_text(state.replay, rollouts, rows)));
  }
  if (fresh > 0)
    lines.push_back("Changed: " + core::counted(fresh, "rank") +
                    (fresh == 1 ? " starts new games" : " start new games"));
  if (const std::string list = changes(found.manifest.settings, settings); !list.empty())
    lines.push_back("Changed: " + list);
}

}  // namespace

Resumed resume_from(const Origin& origin, const dist::Access& access, const RunState& state,
                    const ordered_json& settings, std::int64_t votes_every, dist::DistContext& context) {
  std::vector<std::string> lines;
  const Found found = newest_whole(origin, access, state, settings, context, lines);
  const Games games = share(found, state, settings, context);

  bool same_boards = false, same_rollout = false;
  Failure failure;
  try {
    same_boards = restore_boards(found, games, state.collector, context.rank());
    same_rollout = restore_rollout(found, state, same_boards,
                                   found.manifest.world_size == context.size() &&
                                       equal_settings(kRollout, found.manifest.settings, settings));
  } catch (const FileError& e) {
    failure.why = e.what();
  }
  failure = agreed(failure, context);
  if (!failure.why.empty()) throw cannot_go_on(found.folder, failure.why, "");

  const std::int64_t episode = state.collector.episodes_ended();
  const auto total_steps = settings.at("total_steps").get<std::int64_t>();
  const bool rollouts = state.rollout != nullptr;
  Together all = together(rollouts ? state.rollout->stored() : found.taken.rows,
                          rollouts ? same_rollout : found.taken.replay_as_it_was, same_boards,
                          total_steps > 0 ? state.counters.board_steps >= total_steps
                                          : episode >= settings.at("max_episodes").get<std::int64_t>(),
                          context);
  const bool all_played =
      all.played && state.counters.steps % votes_every == 0;  // else it goes on to the next vote
  Resumed resumed;
  if (context.is_main() && is_saved(origin.place.run, settings, episode))
    resumed.over = why_over(state.counters, settings, found.manifest.settings, all_played ? episode : -1);
  resumed.over = context.broadcast_text(resumed.over, context.deadline());
  if (!resumed.over.empty()) {
    resumed.lines = std::move(lines);
    return resumed;
  }
  // If rows are missing and a rank has no batch left, the wait for the first update starts again; the wait for a
  // rollout does so if any are missing.
  const bool starved =
      !all.same_rows && (rollouts || all.least_rows < settings.at("batch_size").get<std::int64_t>());
  if (context.broadcast_text(starved ? "starved" : "", context.deadline()) == "starved") {
    if (rollouts) state.rollout->restore({}, state.counters.updates), all.rows = 0;
    state.counters.empty_at = state.counters.steps;
    state.counters.updates_due = 0;
  }
  if (!origin.place.checkpoint.empty()) take_up(origin.place, found.manifest.step, context, lines);
  if (!context.is_main()) return resumed;
  add_report(found, state, settings, all.rows, all.fresh, context.size(), lines);
  resumed.lines = std::move(lines);
  return resumed;
}

}  // namespace snake_ddp::train
