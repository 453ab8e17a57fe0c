#include "train/reporter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/host.hpp"
#include "snake_ddp/core/text.hpp"
#include "train/tags.hpp"

namespace snake_ddp::train {
namespace {

constexpr double kRecentGames = 200;
constexpr std::chrono::seconds kBetweenEpisodes{5};

// As the Python trainer prints it.
std::string episode_block(const rollout::Episode& e, int total, int difficulty, bool evasion,
                          const learners::UpdateStats* stats) {
  std::string block =
      fmt::format("[Episode {:05}] total_reward: {} epsilon: {:.2f} [v3.0] difficulty: {}{}\n", e.number,
                  total, e.epsilon, difficulty, evasion ? " [v3.1] evasion:ON" : "");
  block += fmt::format("\t\t\t\tsnake_1: {} snake_2: {} snake_3: {}", e.snake_return[0], e.snake_return[1],
                       e.snake_return[2]);
  if (stats != nullptr)
    block += fmt::format("\n\t\t\t\ta_loss {:.3f} c_loss {:.3f}", stats->actor_loss, stats->critic_loss);
  return block;
}

std::string_view opponent_of(const rollout::Episode& e) {
  if (!e.opponent.is_frozen()) return game::name(e.opponent);
  return e.opponent.is_file() ? "file" : "league";
}

}  // namespace

// Points at one episode or step, for TensorBoard and as a line of metrics.jsonl.
class Reporter::Report {
 public:
  Report(Reporter& reporter, std::int64_t episode)
      : reporter_(reporter),
        step_(reporter.by_steps_ ? reporter.progress_.board_steps : episode),
        line_(reporter.progress_.board_steps, episode, reporter.seconds() / 60, core::seconds_since_1970()) {}
  ~Report() { reporter_.metrics_.add(line_); }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void point(Tag tag, double value) {
    reporter_.events_.scalar(tag.name(), value, step_);
    line_.add(tag.name(), value);
  }
  // What is no curve.
  template <class Value>
  void note(std::string_view name, const Value& value) {
    line_.add(name, value);
  }

 private:
  Reporter& reporter_;
  std::int64_t step_;
  io::MetricsLine line_;
};

Reporter::Reporter(const std::string& folder, const RunProgress& begin, const ReporterOptions& options)
    : folder_(folder),
      log_(folder + "/train.log"),
      events_(folder),
      metrics_(folder, begin.board_steps),
      progress_(begin),
      first_(begin),
      every_episode_(options.every_episode),
      has_actor_(options.has_actor),
      by_steps_(options.by_steps),
      view_(console_, options.doing) {
  if (first_.resumed) events_.restart((by_steps_ ? first_.board_steps : first_.episode) + 1);
}

void Reporter::line(const std::string& text) {
  console_.line(text);
  log_line(text);
}

void Reporter::log_line(const std::string& text) {
  try_to(log_failing_, "train.log can be written again; the lines in between are only on the console",
         [&] { log_->line(text); });
}

template <class Write>
void Reporter::try_to(bool& failing, const char* again, Write write) {
  try {
    write();
    if (std::exchange(failing, false)) console_.line(again);
  } catch (const core::FileError& e) {
    if (!std::exchange(failing, true)) console_.line(fmt::format("{} Training continues", e.what()));
  }
}

void Reporter::push_points() {
  try_to(events_failing_, "the TensorBoard file can be written again", [this] { events_.flush(); });
  try_to(metrics_failing_, "metrics.jsonl can be written again", [this] { metrics_.flush(); });
}

void Reporter::begin_files_anew() {
  log_.emplace(folder_ + "/train.log");
  events_ = io::EventWriter(folder_);
  metrics_ = io::MetricsWriter(folder_, progress_.board_steps);
}

bool Reporter::due() const { return Clock::now() - last_pace_ >= std::chrono::seconds(1); }

void Reporter::episode(const rollout::Episode& e, int difficulty, bool evasion,
                       const learners::UpdateStats* stats) {
  Report report(*this, e.number);
  int total = 0;
  for (int snake = 0; snake < game::kTeamSize; ++snake) {
    report.point(kRewardTags[snake], e.snake_return[snake]);
    total += e.snake_return[snake];
  }
  report.point("reward/total", total);
  if (stats != nullptr) {
    report.point("loss/actor", stats->actor_loss);
    report.point("loss/critic", stats->critic_loss);
  }
  const auto now = Clock::now();
  if (!every_episode_ && e.number > 1 && now - last_shown_ < kBetweenEpisodes) return;
  last_shown_ = now;
  last_game_ = fmt::format("last game against {}, epsilon {:.2f}", opponent_of(e), e.epsilon);
  line(every_episode_ ? episode_block(e, total, difficulty, evasion, stats) : episode_text(e, total, stats));
  draw(e.number);
}

std::string Reporter::episode_text(const rollout::Episode& e, int total,
                                   const learners::UpdateStats* stats) const {
  std::string text = fmt::format("episode {}", e.number);
  if (recent_games_ > 0) text += fmt::format("  won {:.0f} %", 100 * recent_wins_ / recent_games_);
  text += fmt::format("  reward {} ({}, {}, {})  opponent {}", total, e.snake_return[0], e.snake_return[1],
                      e.snake_return[2], opponent_of(e));
  if (stats == nullptr) return text;
  text += fmt::format("  loss {:.3g}", stats->critic_loss);
  return has_actor_ ? text + fmt::format("  actor loss {:.3g}", stats->actor_loss) : text;
}

void Reporter::pace(std::int64_t episode, const Pace& pace, const learners::UpdateStats* stats,
                    double epsilon, int difficulty, std::int64_t replay_size) {
  last_pace_ = Clock::now();
  progress_.steps_per_s = pace.env_steps_per_s;
  {
    Report report(*this, episode);
    report.point("perf/env_steps_per_second", pace.env_steps_per_s);
    report.point("perf/updates_per_second", pace.updates_per_s);
    if (pace.allreduce_ms) report.point("perf/allreduce_ms", *pace.allreduce_ms);
    if (pace.allreduce_share) report.point("perf/allreduce_share", *pace.allreduce_share);
    report.point("perf/memory_mb", pace.memory_mb);
    report.point("perf/gpu_memory_mb", pace.gpu_memory_mb);
    report.point("train/epsilon", epsilon);
    report.point("train/difficulty", difficulty);
    report.point("train/buffer_size", static_cast<double>(replay_size));
    if (stats != nullptr) {
      report.point("train/actor_grad_norm", stats->actor_grad_norm);
      report.point("train/critic_grad_norm", stats->critic_grad_norm);
      report.point("train/q_mean", stats->q_mean);
    }
  }
  push_points();
  progress_.training = last_game_;
  if (recent_games_ > 0)
    progress_.training = fmt::format("{:.1f} % won{}{}", 100 * recent_wins_ / recent_games_,
                                     last_game_.empty() ? "" : ", ", last_game_);
  progress_.speed =
      fmt::format("{} steps/s, {} updates/s", rate_text(pace.env_steps_per_s), rate_text(pace.updates_per_s));
  if (pace.allreduce_share.value_or(0) > 0)
    progress_.speed += fmt::format(", averaging {:.0f} %", 100 * *pace.allreduce_share);
  progress_.speed += fmt::format(", {}, {:.0f} MB", core::counted(replay_size, "transition"), pace.memory_mb);
  if (pace.gpu_memory_mb > 0) progress_.speed += fmt::format(" and {:.0f} MB on the GPU", pace.gpu_memory_mb);
  if (stats != nullptr) {
    progress_.critic_loss.add(stats->critic_loss);
    progress_.losses = fmt::format("critic {:.4g}, mean Q {:.4g}", stats->critic_loss, stats->q_mean);
    if (stats->actor_loss != 0) progress_.losses += fmt::format(", actor {:.4g}", stats->actor_loss);
  }
  draw(episode);
}

void Reporter::ranks(std::vector<RankState> ranks) { progress_.ranks = std::move(ranks); }

void Reporter::evaluation(std::int64_t episode, const std::string& opponent, const play::MatchResult& r) {
  const play::Interval ci = play::wilson_interval(r.wins, r.games);
  const double games = static_cast<double>(r.games);
  progress_.win_rate = r.win_rate();
  progress_.evaluated = true;
  progress_.evaluations.add(r.win_rate());
  best_evaluation_ = std::max(best_evaluation_, r.win_rate());
  progress_.evaluation = fmt::format("{:.1f} % [{:.1f}, {:.1f}], best {:.1f}{} %, {} against {}",
                                     100 * r.win_rate(), 100 * ci.low, 100 * ci.high, 100 * best_evaluation_,
                                     target_text(progress_), core::counted(r.games, "game"), opponent);
  line(
      fmt::format("[Evaluation at episode {}] against {}: won {:.1f} % [{:.1f}, {:.1f}] of {}, score "
                  "{:.1f} : {:.1f}, "
                  "{:.1f} min since the start",
                  episode, opponent, 100 * r.win_rate(), 100 * ci.low, 100 * ci.high,
                  core::counted(r.games, "game"), r.mean_a(), r.mean_b(), seconds() / 60));
  {
    Report report(*this, episode);
    report.note("opponent", opponent);
    report.note("games", games);
    report.point("eval/win_rate", r.win_rate());
    report.point("eval/score", r.mean_a());
    report.point("eval/opponent_score", r.mean_b());
    for (std::size_t k = 0; k < std::size(kDeathTags); ++k) {
      report.point(kDeathTags[k],
                   static_cast<double>(r.deaths_a.group(play::kDeathGroups[k].name).deaths) / games);
    }
    report.point("deaths/length_lost_early", static_cast<double>(r.deaths_a.total(0).length) / games);
    report.point("deaths/length_lost_late", static_cast<double>(r.deaths_a.total(1).length) / games);
  }
  push_points();
}

void Reporter::collected(std::int64_t episode, const Collected& all) {
  Report report(*this, episode);
  report.point("collect/episodes", static_cast<double>(all.episodes));
  report.point("collect/env_steps", static_cast<double>(all.env_steps));
  report.point("collect/transitions", static_cast<double>(all.transitions));
  report.point("collect/play_seconds", 1e-6 * static_cast<double>(all.play_us));
  if (const std::int64_t games = all.episodes - reported_.episodes; games > 0) {
    const auto mean = [&](std::int64_t Collected::*sum) {
      return static_cast<double>(all.*sum - reported_.*sum) / static_cast<double>(games);
    };
    report.point("collect/episode_steps", mean(&Collected::episode_steps));
    report.point("collect/team_return", mean(&Collected::team_return));
    report.point("collect/rival_return", mean(&Collected::rival_return));
    report.point("collect/win_rate", mean(&Collected::wins));
    // The bar shows a mean over the last few hundred games, which fluctuates less.
    const double kept = std::max(0.0, 1 - static_cast<double>(games) / kRecentGames);
    recent_games_ = kept * recent_games_ + static_cast<double>(games);
    recent_wins_ = kept * recent_wins_ + static_cast<double>(all.wins - reported_.wins);
    if (!progress_.evaluated) progress_.win_rate = recent_wins_ / recent_games_;
    progress_.training_wins.add(recent_wins_ / recent_games_);
  }
  reported_ = all;
}

void Reporter::league(const std::vector<LeagueMember>& members, const Judgement& judgement) {
  std::string list;
  for (std::size_t k = 0; k < members.size(); ++k) {
    list += fmt::format("{}{} {:.1f} %", k == 0 ? "" : ", ", name_of(members[k]),
                        100 * judgement.against[k].win_rate());
  }
  line(fmt::format("[League at episode {}] Elo {:.0f} [{:.0f}, {:.0f}] above {}, won {:.1f} % of {}: {}{}",
                   judgement.episode, judgement.rating.elo, judgement.rating.low, judgement.rating.high,
                   name_of(members[0]), 100 * judgement.total.win_rate(),
                   core::counted(judgement.total.games, "game"), list,
                   judgement.entered ? fmt::format("; a copy joined as #{}", judgement.episode) : ""));
  progress_.elo.add(judgement.rating.elo);
  progress_.league =
      fmt::format("Elo {:.0f} [{:.0f}, {:.0f}], {}", judgement.rating.elo, judgement.rating.low,
                  judgement.rating.high, core::counted(judgement.members, "member"));
  {
    Report report(*this, judgement.episode);
    report.note("elo_low", judgement.rating.low);
    report.note("elo_high", judgement.rating.high);
    report.point("league/elo", judgement.rating.elo);
    report.point("league/win_rate", judgement.total.win_rate());
    report.point("league/members", static_cast<double>(judgement.members));
  }
  push_points();
}

void Reporter::flush() {
  view_.end();
  if (const std::int64_t dropped = console_.dropped(); dropped > 0)
    try_to(log_failing_, "train.log is written again", [&] {
      log_->line(fmt::format("{} {} dropped", core::counted(dropped, "console line"),
                             dropped == 1 ? "was" : "were"));
    });
  events_.flush();
  metrics_.flush();
}

double Reporter::seconds() const {
  return first_.seconds + std::chrono::duration<double>(Clock::now() - begin_).count();
}

void Reporter::draw(std::int64_t episode) {
  if (!console_.terminal()) return;
  progress_.episode = episode;
  progress_.seconds = seconds();
  progress_.episodes_per_s =
      static_cast<double>(episode - first_.episode) / std::max(progress_.seconds - first_.seconds, 1e-9);
  view_.show(progress_);
}

}  // namespace snake_ddp::train
