#include "snake_ddp/app/report_data.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "report_ladder.hpp"
#include "snake_ddp/app/replay_page.hpp"
#include "snake_ddp/play/match.hpp"
#include "snake_ddp/records/atomic_file.hpp"
#include "snake_ddp/records/game_log.hpp"
#include "snake_ddp/train/history.hpp"
#include "snake_ddp/train/options.hpp"

namespace snake_ddp::app {
namespace {

using nlohmann::ordered_json;
using train::Curve;
using train::History;

constexpr std::size_t kMostEvaluations = 400, kMostNotes = 100;
constexpr std::size_t kPointsOfAll = 480;  // per curve, over all runs together
constexpr std::size_t kMostGameBytes = 600'000;

/// Rounded to six digits.
double tidy(double value) { return std::isfinite(value) ? std::stod(fmt::format("{:.6g}", value)) : value; }

/// The shortest decimal number that is this float.
double exact(float value) { return std::isfinite(value) ? std::stod(fmt::format("{}", value)) : value; }

std::string clock_text(double time) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<std::time_t>(time)));
}

/// Positions on the three axes.
class Axes {
 public:
  explicit Axes(const History& history) : history_(history) {
    const auto found = history.curves.find("collect/env_steps");
    if (found == history.curves.end()) return;
    // The tag counts from zero at each start.
    double done = 0;
    std::size_t next = 0;
    for (std::size_t i = 0; i < found->second.time.size(); ++i) {
      const double time = found->second.time[i];
      for (; next < history.stretches.size() && history.stretches[next].begin <= time; ++next) {
        done = steps_.empty() ? 0 : steps_.back();
        times_.push_back(history.stretches[next].begin);
        steps_.push_back(done);
      }
      times_.push_back(time);
      steps_.push_back(done + static_cast<double>(found->second.value[i]));
    }
  }
  /// Episode of the last point before this time.
  [[nodiscard]] std::int64_t episodes(double time) const {
    std::int64_t last = 0;
    for (const auto& [tag, curve] : history_.curves) {
      const auto after = std::upper_bound(curve.time.begin(), curve.time.end(), time) - curve.time.begin();
      if (after > 0) last = std::max(last, curve.episode[static_cast<std::size_t>(after - 1)]);
    }
    return last;
  }
  [[nodiscard]] double minutes(double time) const { return std::round(history_.minutes(time) * 1e4) / 1e4; }
  [[nodiscard]] std::int64_t steps(double time) const {
    if (times_.empty()) return 0;
    const auto after =
        static_cast<std::size_t>(std::lower_bound(times_.begin(), times_.end(), time) - times_.begin());
    if (after == 0) return std::llround(steps_.front());
    if (after == times_.size()) return std::llround(steps_.back());
    const double span = times_[after] - times_[after - 1];
    const double part = span > 0 ? (time - times_[after - 1]) / span : 1;
    return std::llround(steps_[after - 1] + part * (steps_[after] - steps_[after - 1]));
  }

 private:
  const History& history_;
  std::vector<double> times_, steps_;
};

/// Means of neighbours if there are more than `most` points.
ordered_json curve_json(const Curve& curve, const Axes& axes, std::size_t most) {
  const std::size_t count = curve.time.size(), places = std::min(count, most);
  ordered_json minutes = ordered_json::array(), steps = minutes, episodes = minutes, values = minutes;
  for (std::size_t place = 0; place < places; ++place) {
    const std::size_t begin = place * count / places, end = (place + 1) * count / places;
    double time = 0, episode = 0, value = 0;
    for (std::size_t i = begin; i < end; ++i) {
      time += curve.time[i];
      episode += static_cast<double>(curve.episode[i]);
      value += static_cast<double>(curve.value[i]);
    }
    const auto n = static_cast<double>(end - begin);
    minutes.push_back(axes.minutes(time / n));
    steps.push_back(axes.steps(time / n));
    episodes.push_back(std::llround(episode / n));
    values.push_back(end - begin == 1 ? exact(curve.value[begin]) : tidy(value / n));
  }
  return {{"minutes", minutes}, {"steps", steps}, {"episodes", episodes}, {"values", values}};
}

const Curve* find(const History& history, const char* tag) {
  const auto found = history.curves.find(tag);
  return found == history.curves.end() || found->second.time.empty() ? nullptr : &found->second;
}

/// The share of the time between two points that was spent on playing.
Curve playing_share(const History& history, double ranks) {
  Curve share;
  const Curve* played = find(history, "collect/play_seconds");
  for (std::size_t i = 1; played != nullptr && i < played->time.size(); ++i) {
    const double passed = played->time[i] - played->time[i - 1];
    const double seconds = static_cast<double>(played->value[i] - played->value[i - 1]) / ranks;
    if (passed <= 0 || seconds < 0) continue;  // there was a start in between
    share.time.push_back(played->time[i]);
    share.episode.push_back(played->episode[i]);
    share.value.push_back(static_cast<float>(std::min(1.0, seconds / passed)));
  }
  return share;
}

ordered_json mean_of(const Curve* curve) {
  if (curve == nullptr || curve->value.empty()) return nullptr;
  double sum = 0;
  for (const float value : curve->value) sum += static_cast<double>(value);
  return tidy(sum / static_cast<double>(curve->value.size()));
}

// The lines that train::Reporter writes.
const std::regex kEvaluation(
    R"(^\[Evaluation at episode (\d+)\] against (.*): won [\d.]+ % \[[\d., ]+\] of (\d+) games)");
const std::regex kLeague(R"(^\[League at episode (\d+)\] Elo (-?\d+) \[(-?\d+), (-?\d+)\])");

struct LineKind {
  const char *begin, *holds;  // the line's beginning, and a text that it contains
  const char* mark;           // on the time line; empty: none
};
constexpr LineKind kLines[] = {{"[Episode ", "", ""},
                               {"[Evaluation at ", "", ""},
                               {"[League at ", "", ""},
                               {"Run folder: ", "", ""},
                               {"Settings: ", "", ""},
                               {"First update after ", "", ""},
                               {"On the CPU: ", "", ""},
                               {"Fingerprint: ", "", ""},
                               {"snake_ddp ", " on ", "start"},
                               {"Resumed from checkpoint ", "", "resumed"},
                               {"Checkpoint step ", " MB in ", "checkpoint"},
                               {"Saved at episode ", "", "saved"},
                               {"Training completed! ", "", "end"},
                               {"Stopped by a signal ", "", "stopped"}};

/// The mark of a line; nothing for a line of another kind, which is worth reading.
std::optional<std::string> mark_of(const std::string& text) {
  for (const LineKind& kind : kLines)
    if (text.starts_with(kind.begin) && text.find(kind.holds) != std::string::npos) return kind.mark;
  return std::nullopt;
}

ordered_json evaluations(const History& history, const Axes& axes) {
  struct Logged {
    std::string opponent;
    std::int64_t games = 0;
  };
  std::map<std::int64_t, Logged> logged;
  std::smatch match;
  for (const train::LogLine& line : history.log)
    if (std::regex_search(line.text, match, kEvaluation))
      logged[std::stoll(match[1])] = {match[2], std::stoll(match[3])};
  const Logged usual{history.settings.value("eval_opponent", ""),
                     history.settings.value("eval_games", std::int64_t{0})};
  ordered_json all = ordered_json::array();
  const Curve* rates = find(history, "eval/win_rate");
  const std::size_t count = rates == nullptr ? 0 : rates->time.size();
  const std::size_t every = 1 + (count == 0 ? 0 : (count - 1) / kMostEvaluations);
  for (std::size_t i = 0; i < count; ++i) {
    if (i % every != 0 && i + 1 != count) continue;
    const auto found = logged.find(rates->episode[i]);
    const Logged& said = found == logged.end() ? usual : found->second;
    const std::int64_t wins =
        std::llround(static_cast<double>(rates->value[i]) * static_cast<double>(said.games));
    const play::Interval ci = play::wilson_interval(wins, said.games);
    all.push_back({{"minutes", axes.minutes(rates->time[i])},
                   {"steps", axes.steps(rates->time[i])},
                   {"episodes", rates->episode[i]},
                   {"value", exact(rates->value[i])},
                   {"low", tidy(ci.low)},
                   {"high", tidy(ci.high)},
                   {"games", said.games},
                   {"opponent", said.opponent}});
  }
  return all;
}

ordered_json league(const History& history, const Axes& axes) {
  std::map<std::int64_t, std::array<double, 2>> intervals;
  std::smatch match;
  for (const train::LogLine& line : history.log)
    if (std::regex_search(line.text, match, kLeague))
      intervals[std::stoll(match[1])] = {std::stod(match[3]), std::stod(match[4])};
  ordered_json all = ordered_json::array();
  const Curve* elo = find(history, "league/elo");
  for (std::size_t i = 0; elo != nullptr && i < elo->time.size(); ++i) {
    ordered_json point = {{"minutes", axes.minutes(elo->time[i])},
                          {"steps", axes.steps(elo->time[i])},
                          {"episodes", elo->episode[i]},
                          {"value", exact(elo->value[i])}};
    if (const auto found = intervals.find(elo->episode[i]); found != intervals.end())
      point.update({{"low", found->second[0]}, {"high", found->second[1]}});
    all.push_back(point);
  }
  return all;
}

/// Marks of the time line, lines worth reading, and how the run ended.
void add_log(const History& history, const Axes& axes, ordered_json& run) {
  ordered_json marks = ordered_json::array(), notes = ordered_json::array();
  std::string state = "died";
  for (const train::LogLine& line : history.log) {
    const std::optional<std::string> mark = mark_of(line.text);
    if (!mark) {
      notes.push_back(
          {{"minutes", axes.minutes(line.time)}, {"time", clock_text(line.time)}, {"text", line.text}});
    } else if (!mark->empty()) {
      marks.push_back({{"kind", *mark},
                       {"minutes", axes.minutes(line.time)},
                       {"steps", axes.steps(line.time)},
                       {"episodes", axes.episodes(line.time)},
                       {"time", clock_text(line.time)},
                       {"text", line.text}});
      state = *mark == "end"       ? "finished"
              : *mark == "stopped" ? "stopped"
              : *mark == "start"   ? "died"
                                   : state;
    }
  }
  if (history.is_running) state = "running";
  const std::size_t left_out = notes.size() > kMostNotes ? notes.size() - kMostNotes : 0;
  if (left_out > 0) {
    const auto middle = notes.begin() + kMostNotes / 2;
    notes.erase(middle, middle + static_cast<std::ptrdiff_t>(left_out));
  }
  run["state"] = state;
  run["marks"] = marks;
  run["notes"] = notes;
  run["notes_left_out"] = left_out;
}

ordered_json base_settings(const std::string& preset) {
  train::TrainOptions options;
  const config::Fields fields = train::fields(options);
  if (!preset.empty()) config::set_from_json_text(fields, records::read_file(preset), preset, {"run"});
  return config::to_json(fields);
}

ordered_json differences(const ordered_json& settings, const ordered_json& base) {
  ordered_json all = ordered_json::array();
  for (const auto& [name, value] : settings.items()) {
    if (name == "run" || name == "runs_dir" || name == "resume") continue;
    const ordered_json usual = base.value(name, ordered_json());
    if (value != usual) all.push_back({name, value, usual});
  }
  return all;
}

/// The key that runs share if they differ only in their seed.
std::string settings_without_seed(ordered_json settings) {
  const ordered_json ranks =
      settings.value("run", ordered_json::object()).value("world_size", ordered_json(1));
  for (const char* name : {"seed", "run", "runs_dir", "resume", "log_dir"}) settings.erase(name);
  return settings.dump() + ranks.dump();
}

/// Pages of the last evaluation's games, as far as they fit.
ordered_json games_of(const std::string& folder, std::size_t& room) {
  ordered_json all = ordered_json::array();
  for (const char* name : {"best", "median", "worst"}) {
    const std::string path = folder + "/evaluation/" + name + ".json";
    if (!std::filesystem::exists(path)) continue;
    records::read_games(path, [&](const records::RecordedGame& game) {
      std::string page = replay_page(game, {path, 0, {}});
      if (page.size() > room) {
        all.push_back({{"name", name}, {"path", path}});
        return;
      }
      room -= page.size();
      int score[2] = {0, 0};
      for (const records::RecordedStep& step : game.steps)
        for (int i = 0; i < game::kSnakes; ++i)
          score[i / game::kTeamSize] += step.reward[static_cast<std::size_t>(i)];
      all.push_back({{"name", name}, {"names", game.names}, {"score", score}, {"page", std::move(page)}});
    });
  }
  return all;
}

}  // namespace

ordered_json report_data(const ReportOptions& options) {
  const ordered_json base = base_settings(options.preset);
  std::vector<std::string> groups;
  std::size_t room = kMostGameBytes;
  const std::size_t most =
      std::max<std::size_t>(40, kPointsOfAll / std::max<std::size_t>(2, options.runs.size()));
  ordered_json runs = ordered_json::array();
  for (const std::string& given : options.runs) {
    const std::filesystem::path path = std::filesystem::path(given).lexically_normal();
    const std::string folder = (path.has_filename() ? path : path.parent_path()).string();
    const History history = train::read_history(folder);
    const Axes axes(history);
    const ordered_json about = history.settings.value("run", ordered_json::object());
    const std::string settings = settings_without_seed(history.settings);
    const auto group = std::find(groups.begin(), groups.end(), settings) - groups.begin();
    if (group == static_cast<std::ptrdiff_t>(groups.size())) groups.push_back(settings);
    const double last = history.stretches.empty() ? 0 : history.stretches.back().end;
    ordered_json run = {{"name", std::filesystem::path(folder).filename().string()},
                        {"folder", folder},
                        {"group", group},
                        {"seed", history.settings.value("seed", ordered_json())},
                        {"algo", history.settings.value("algo", "")},
                        {"about", about},
                        {"minutes", axes.minutes(last)},
                        {"steps", axes.steps(last)},
                        {"episodes", axes.episodes(last)}};
    if (!history.log.empty()) {
      run["began"] = clock_text(history.log.front().time);
      run["last"] = clock_text(history.log.back().time);
    }
    add_log(history, axes, run);
    run["damage"] = history.damage;
    run["evaluations"] = evaluations(history, axes);
    run["league"] = league(history, axes);
    const Curve playing = playing_share(history, about.value("world_size", 1.0));
    run["shares"] = {{"playing", mean_of(&playing)},
                     {"averaging", mean_of(find(history, "perf/allreduce_share"))}};
    ordered_json& curves = run["curves"] = ordered_json::object();
    for (const auto& [tag, curve] : history.curves)
      if (!curve.time.empty()) curves[tag] = curve_json(curve, axes, most);
    if (!playing.time.empty()) curves["time/playing"] = curve_json(playing, axes, most);
    run["settings"] = differences(history.settings, base);
    run["ladder"] = run_ladder(folder, options.champion, options.ladder_games, history.is_running);
    run["games"] = games_of(folder, room);
    runs.push_back(std::move(run));
  }
  return {{"made", clock_text(static_cast<double>(std::time(nullptr)))},
          {"preset", options.preset.empty() ? ordered_json() : ordered_json(options.preset)},
          {"runs", runs}};
}

}  // namespace snake_ddp::app
