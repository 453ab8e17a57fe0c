#include "periodic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dist/signals.hpp"
#include "io/atomic_file.hpp"
#include "io/folders.hpp"
#include "io/game_log.hpp"
#include "learners/learner.hpp"
#include "session.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/host.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/rules.hpp"
#include "snake_ddp/play/match.hpp"
#include "train/judge.hpp"
#include "train/plan.hpp"
#include "weights.hpp"

namespace snake_ddp::train {
namespace {

// The best, the median and the worst game of an evaluation, as game logs.
class EvaluationGames {
 public:
  // Follows the games of a match: sets `options.on_step`. The games are replayed from their moves, so `options.seed`
  //         and `swap_sides` must be those of the match. Owner: `options` refers to this.
  explicit EvaluationGames(play::MatchOptions& options);

  // Writes `folder`/best.json, median.json and worst.json, by player a's lead at the end; of equal ones the first.
  // Creates the folder if missing; without a game nothing is written.
  // Throws  FileError.
  void write(const std::string& folder, const std::string& a, const std::string& b) const;

 private:
  struct Game {
    std::vector<game::Actions> moves;
    int lead = 0;  // of team A
  };
  [[nodiscard]] bool swapped(std::int64_t number) const { return swap_sides_ && number % 2 == 1; }

  std::uint64_t seed_;
  bool swap_sides_;
  std::map<std::int64_t, Game> games_;
};

EvaluationGames::EvaluationGames(play::MatchOptions& options)
    : seed_(options.seed), swap_sides_(options.swap_sides) {
  options.on_step = [this](std::int64_t number, const game::Actions& actions, const game::StepResult&,
                           const game::State& after) {
    Game& game = games_[number];
    game.moves.push_back(actions);
    game.lead = after.team_return(0) - after.team_return(1);
  };
}

void EvaluationGames::write(const std::string& folder, const std::string& a, const std::string& b) const {
  if (games_.empty()) return;
  std::vector<std::pair<int, std::int64_t>> order;  // worst first
  for (const auto& [number, game] : games_)
    order.emplace_back(swapped(number) ? -game.lead : game.lead, number);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  const auto best = std::find_if(order.begin(), order.end(),
                                 [&](const auto& one) { return one.first == order.back().first; });
  const std::pair<const char*, std::int64_t> chosen[] = {
      {"best", best->second}, {"median", order[order.size() / 2].second}, {"worst", order.front().second}};
  io::make_own_folder(folder);
  for (const auto& [name, number] : chosen) {
    const game::Draws draws{seed_, static_cast<std::uint64_t>(number)};
    game::State board = game::new_board(draws);
    io::RecordedGame record = io::begin_record(board);
    record.names = {a, b};
    if (swapped(number)) std::swap(record.names[0], record.names[1]);
    for (const game::Actions& actions : games_.at(number).moves) {
      const game::StepResult result = game::advance(board, actions, draws);
      io::add_step(record, actions, result, board);
    }
    io::write_file_atomically(folder + "/" + name + ".json", io::game_log_text(record));
  }
}

bool is_late(const Session& s) { return s.o.max_minutes > 0 && s.seconds() > s.o.max_minutes * 60; }

bool has_league(const Session& s) { return !s.league.members().empty(); }

std::int64_t done(const Session& s, const Scheduled& j) {
  if (j.job->unit == Job::Unit::kUpdates) return s.counters.updates;
  return j.job->when == Job::When::kStep ? s.pipeline->count().episodes_ended : s.agreed.episode;
}

bool is_complete(const Session& s, const Scheduled& j) {
  return j.interval > 0 && done(s, j) / j.interval > *j.behind;
}

void count(const Session& s, const Scheduled& j) { *j.behind = done(s, j) / j.interval; }

// Returns whether it succeeded; if not, the next save may.
bool save(Session& s, const std::string& name) {
  try {
    mend_folder(s);
    s.writer->save(*s.learner, name);
    return true;
  } catch (const core::FileError& e) {
    s.reporter->line(fmt::format("actor_{} and critic_{} could not be saved: {} Training continues", name,
                                 name, e.what()));
    return false;
  }
}

void save_weights(Session& s, Scheduled& j) {
  count(s, j);
  save(s, std::to_string(s.o.model_episode + *j.behind * j.interval));
}

void compare_weights(Session& s, Scheduled& j) {
  count(s, j);
  const std::string updates = core::counted(s.counters.updates, "update");
  s.context.check_same("weights after " + updates, state_hash(*s.learner), s.context.deadline());
  s.context.check_same("counters after " + updates, equal_text(s.counters), s.context.deadline());
}

void keep_games(Session& s, const EvaluationGames& games) {
  try {
    mend_folder(s);
    games.write(s.writer->folder() + "/evaluation", s.o.algo, s.o.eval_opponent);
  } catch (const core::FileError& e) {
    s.reporter->line(
        fmt::format("The evaluation's games could not be saved: {} Training continues", e.what()));
  }
}

void evaluate(Session& s, Scheduled& j) {
  s.watchdog.tick("evaluating");
  const auto alive = [&](std::chrono::milliseconds longer) { s.watchdog.tick("evaluating", longer); };
  const rollout::Player self =
      rollout::with_search({std::nullopt, &s.learner->judged_policy(), s.o.obs_spec, false, s.o.mask_fatal},
                           s.o.eval_how, s.o.training, s.learner->exported_actor());
  const rollout::Player rival{s.o.eval_rival, nullptr, {}, false};
  play::MatchOptions match{s.o.eval_games, static_cast<std::uint64_t>(s.o.seed), true, 0, 1, {}};
  match.watch = [&](std::int64_t, const game::State&) { alive({}); };
  std::optional<EvaluationGames> games;
  if (s.writer) games.emplace(match);
  const std::optional<play::MatchResult> played =
      judge(self, rival, match, s.context, dist::stop_requested, alive);
  if (!played) {
    s.agreed.stop = 1;
    return;
  }
  count(s, j);
  *j.due = 0;
  const double win_rate = played->win_rate();
  if (s.reporter) s.reporter->evaluation(s.agreed.episode, s.o.eval_opponent, *played);
  if (games) keep_games(s, *games);
  s.note(fmt::format("Evaluation at episode {}, step {}: won {} of {}", s.agreed.episode, s.counters.steps,
                     played->wins, played->games));
  if (s.writer && win_rate > s.counters.best_win_rate) save(s, "best");
  s.counters.best_win_rate = std::max(s.counters.best_win_rate, win_rate);
  if (s.o.target_win_rate > 0 && win_rate >= s.o.target_win_rate) s.agreed.is_finished = true;
}

void judge_league(Session& s, Scheduled& j) {
  const auto alive = [&](std::chrono::milliseconds longer) { s.watchdog.tick("judging the league", longer); };
  alive({});
  const std::vector<LeagueMember> before = s.league.members();
  const std::optional<Judgement> judgement =
      s.league.judge(*s.learner, s.agreed.episode, s.context, alive, dist::stop_requested);
  if (!judgement) {
    s.agreed.stop = 1;
    return;
  }
  count(s, j);
  *j.due = 0;
  if (s.reporter) s.reporter->league(before, *judgement);
}

void report_checkpoint(Session& s, const Checkpoints::Outcome& outcome) {
  s.note(outcome.failure.empty() ? fmt::format("Wrote this rank's part of checkpoint step {}", outcome.step)
                                 : fmt::format("Could not write this rank's part of checkpoint step {}: {}",
                                               outcome.step, outcome.failure));
  if (!s.reporter) return;
  s.reporter->line(outcome.failure.empty()
                       ? fmt::format("Checkpoint step {}: {:.1f} MB in {:.1f} s", outcome.step,
                                     static_cast<double>(outcome.bytes) / 1e6, outcome.seconds)
                       : fmt::format("No checkpoint at step {}: {} Training continues; next attempt in {}",
                                     outcome.step, outcome.failure,
                                     core::counted(s.o.checkpoint_interval, "episode")));
}

void begin_checkpoint(Session& s) {
  s.agreed.checkpoint_asked = false;
  s.counters.jobs["checkpoints"] = s.agreed.episode / s.o.checkpoint_interval;
  s.counters.seconds = s.seconds();
  s.watchdog.tick("taking a checkpoint");
  if (s.reporter) s.reporter->push_points();
  if (s.writer) {
    try {
      mend_folder(s);
    } catch (const core::FileError& e) {
      s.reporter->line(fmt::format("The run folder was removed: {}", e.what()));
    }
  }
  s.checkpoints->begin(s.state());
}

// Each rank writes its part while training continues; the checkpoint is completed when no rank is busy.
void keep_checkpoints(Session& s, Scheduled& j) {
  s.agreed.checkpoint_asked |= s.agreed.save > 0;
  if (s.checkpoints->under_way()) {
    if (s.agreed.writing > 0) return;
    const std::optional<Checkpoints::Outcome> outcome = s.checkpoints->advance(s.context);
    if (!outcome) return;
    report_checkpoint(s, *outcome);
  }
  if (s.agreed.checkpoint_asked || is_complete(s, j)) begin_checkpoint(s);
}

using Unit = Job::Unit;
using When = Job::When;

// In the order in which they are done.
constexpr Job kJobs[] = {
    {"saved", "save_interval", Unit::kEpisodes, When::kStep, save_weights},
    {"checks", "check_consistency", Unit::kUpdates, When::kVote, compare_weights},
    {"evaluations", "eval_interval", Unit::kEpisodes, When::kGames, evaluate, "evaluation_due", true},
    {.counter = "judgements",
     .interval = "league_interval",
     .unit = Unit::kEpisodes,
     .when = When::kGames,
     .run = judge_league,
     .due = "judgement_due",
     .wanted = has_league,
     .flag = {"Opponents", "episodes between matches of the learner against its league", 10000, 1}},
    {"checkpoints", "checkpoint_interval", Unit::kEpisodes, When::kGoingOn, keep_checkpoints},
};

void run_complete(Session& s, When when) {
  for (Scheduled& j : s.jobs)
    if (j.job->when == when && is_complete(s, j)) j.job->run(s, j);
}

// Whether this rank has done its part of the run. `episode`: how many it has played.
bool is_played(const Session& s, std::int64_t episode) {
  return s.o.total_steps > 0 ? s.counters.board_steps >= s.o.total_steps : episode >= s.o.max_episodes;
}

// On a GPU the numbers are those of an earlier vote.
bool has_diverged(Session& s) {
  if (s.counters.updates == s.start.updates) return false;
  s.stats.ask(*s.learner);
  const learners::UpdateStats* stats = s.stats.newest();
  return stats != nullptr && !std::isfinite(stats->critic_loss);
}

void take_pulse(RankStats& rank_stats, Session& s) {
  if (s.context.device().is_cpu())
    rank_stats.waited_us = std::llround(1000 * s.all_reduce.measured_ms()) + s.voted_us;
  if (seconds_since(s.measured_at) < 1) return;
  s.measured_at = Clock::now();
  rank_stats.memory_mb =
      std::llround(s.context.device().is_cpu() ? core::resident_mb() : gpu_memory_mb(s.context.device()));
}

void vote_on(Session& s, const Vote& own) {
  take_pulse(s.rank_stats, s);
  const Clock::time_point begin = Clock::now();
  static_cast<Vote&>(s.agreed) = dist::vote(own, s.rank_stats, s.agreed.rank_stats, s.context);
  s.agreed.at = Clock::now();
  s.voted_us += std::chrono::duration_cast<std::chrono::microseconds>(s.agreed.at - begin).count();
  s.agreed.is_finished = s.agreed.finished == s.context.size() || s.agreed.late > 0;
  dist::check_divergence(s.agreed.diverged, "the critic's loss", s.counters.updates,
                         "--c_lr or --reward_scale");
}

Collected collected(const Session& s) {
  Collected all = s.collected;
  all.env_steps = (s.counters.steps - s.start.steps) * s.o.num_envs;
  all.transitions = s.pipeline->count().replay_appended - s.appended_before;
  return all;
}

bool is_due(const Scheduled& j) { return j.due != nullptr && *j.due > 0; }

// A stop does not wait for games. Returns whether to continue.
bool play_due_games(Session& s) {
  for (Scheduled& j : s.jobs) {
    if (is_due(j) && j.interval == 0) *j.due = 0;  // from an earlier start with other settings
    if (is_due(j) && s.agreed.stop == 0 && (j.job->at_end || !s.agreed.is_finished)) j.job->run(s, j);
  }
  // Games that are due at the end are part of the run.
  for (const Scheduled& j : s.jobs)
    if (j.job->at_end && is_due(j)) s.agreed.is_finished = false;
  return s.agreed.stop == 0 && !s.agreed.is_finished;
}

}  // namespace

std::span<const Job> jobs() { return kJobs; }

io::Fields job_flags(io::Values& values) {
  io::Fields all;
  for (const Job& job : kJobs) {
    if (job.flag.heading == nullptr) continue;
    std::int64_t interval = job.flag.usual;
    const io::Field field =
        io::number(job.interval, &interval, job.flag.help, static_cast<double>(job.flag.least), kMany);
    all = io::joined({all, io::over(io::under(job.flag.heading, {field}), values)});
  }
  return all;
}

std::vector<Scheduled> schedule(Session& s) {
  std::vector<Scheduled> all;
  for (const Job& job : kJobs) {
    const bool wanted = job.wanted == nullptr || job.wanted(s);
    all.push_back({&job, wanted ? s.settings.at(job.interval).get<std::int64_t>() : 0,
                   &s.counters.jobs[job.counter], job.due != nullptr ? &s.counters.jobs[job.due] : nullptr});
  }
  return all;
}

bool begin_periodic(Session& s) {
  if (s.resumed_at < 0) {
    // The first checkpoint, of an empty replay, shows at once whether checkpoints can be written.
    if (s.o.checkpoint_interval > 0) begin_checkpoint(s);
    return true;
  }
  if (s.counters.updates_due >= 1.0) return true;  // the step that a stop came in is not over
  const std::int64_t episode = s.pipeline->count().episodes_ended;
  vote_on(s, {.finished = is_played(s, episode),
              .late = s.context.is_main() && is_late(s),
              .episode = s.context.is_main() ? episode : 0});
  const bool due = std::any_of(s.jobs.begin(), s.jobs.end(), is_due);
  return due ? play_due_games(s) : !s.agreed.is_finished;
}

bool keep(Session& s) {
  const bool is_vote = s.counters.steps % s.votes_every == 0;
  // Between averages the weights are those of one rank.
  if (s.writer && (is_vote || s.o.local_updates == 0)) run_complete(s, When::kStep);
  if (!is_vote) return true;
  const std::int64_t episode = s.pipeline->count().episodes_ended;
  const bool late = s.context.is_main() && is_late(s);
  vote_on(s, {dist::stop_requested(), dist::take_save_request(), is_played(s, episode), late, has_diverged(s),
              s.checkpoints->busy(), s.context.is_main() ? episode : 0, collected(s)});
  if (s.writer && s.agreed.save > 0 && save(s, std::to_string(s.o.model_episode + episode)))
    s.reporter->line(fmt::format("Saved at episode {}, requested by a signal", s.o.model_episode + episode));
  run_complete(s, When::kVote);
  for (Scheduled& j : s.jobs) {
    if (j.job->when == When::kGames && j.interval > 0 &&
        (is_complete(s, j) || (j.job->at_end && s.agreed.is_finished)))
      *j.due = 1;
  }
  if (!play_due_games(s)) return false;
  for (Scheduled& j : s.jobs)
    if (j.job->when == When::kGoingOn && j.interval > 0) j.job->run(s, j);
  return true;
}

std::string write_last_checkpoint(Session& s) {
  if (s.o.checkpoint_interval == 0) return {};
  s.watchdog.tick("writing the last checkpoint");
  if (s.checkpoints->under_way()) {
    const Checkpoints::Outcome earlier = s.checkpoints->complete(s.context);
    report_checkpoint(s, earlier);
    if (earlier.failure.empty() && earlier.step == s.counters.steps) return {};
  }
  if (s.resumed_at == s.counters.steps && s.start.updates == s.counters.updates) return {};
  begin_checkpoint(s);
  const Checkpoints::Outcome last = s.checkpoints->complete(s.context);
  if (last.failure.empty()) report_checkpoint(s, last);
  return last.failure;
}

void mend_folder(Session& s) {
  if (!s.writer->mend()) return;
  s.reporter->begin_files_anew();
  s.reporter->line("The run folder, or part of it, was removed during the run; it has been created again");
}

}  // namespace snake_ddp::train
