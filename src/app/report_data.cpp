#include "snake_ddp/app/report_data.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "report_ladder.hpp"
#include "snake_ddp/app/replay_page.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/text.hpp"
#include "snake_ddp/learners/registry.hpp"
#include "snake_ddp/play/match.hpp"
#include "snake_ddp/records/atomic_file.hpp"
#include "snake_ddp/records/folders.hpp"
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
constexpr double kMostSteps = 1e15;

/// Rounded to six digits.
double tidy(double value) { return base::try_number<double>(fmt::format("{:.6g}", value)).value_or(value); }

/// The shortest decimal number that is this float.
double exact(float value) {
  return base::try_number<double>(fmt::format("{}", value)).value_or(static_cast<double>(value));
}

std::string clock_text(double time) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<std::time_t>(time)));
}

/// Values of a run's files, which may be a stranger's. One of another kind than expected goes to `damage`.
struct Said {
  std::vector<std::string>& damage;

  /// Empty if it is missing or not text.
  std::string text(const ordered_json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end()) return {};
    if (found->is_string()) return found->get<std::string>();
    return expected(name, *found, "a text"), std::string();
  }
  /// `otherwise` if it is missing or not such a number.
  double number(const ordered_json& object, const char* name, double otherwise, double least, double most) {
    const auto found = object.find(name);
    if (found == object.end()) return otherwise;
    if (found->is_number() && found->get<double>() >= least && found->get<double>() <= most)
      return found->get<double>();
    return expected(name, *found, fmt::format("a number from {:g} to {:g}", least, most)), otherwise;
  }
  /// The run's entry in config.json, with what the page shows of it as expected.
  ordered_json about(const ordered_json& settings) {
    const auto found = settings.find("run");
    if (found == settings.end()) return ordered_json::object();
    if (!found->is_object()) return expected("run", *found, "an object"), ordered_json::object();
    ordered_json shown = *found;
    for (const char* name : {"device", "version"})
      if (shown.contains(name)) shown[name] = text(*found, name);
    if (shown.contains("world_size")) shown["world_size"] = number(*found, "world_size", 1, 1, 1e6);
    return shown;
  }

 private:
  void expected(const char* name, const ordered_json& value, const std::string& what) {
    damage.push_back(
        fmt::format("config.json: \"{}\" is {:.60}, expected {}.", name, value.dump(-1, ' ', true), what));
  }
};

/// Positions on the three axes.
class Axes {
 public:
  explicit Axes(const History& history) : history_(history) {
    const auto found = history.curves.find("collect/env_steps");
    if (found == history.curves.end()) return;
    // The tag counts from zero at each start.
    double done = 0;
    std::size_t i = 0;
    const Curve& counted = found->second;
    const auto take_until = [&](double end) {
      for (; i < counted.time.size() && counted.time[i] < end; ++i) {
        times_.push_back(counted.time[i]);
        const auto since = static_cast<double>(counted.value[i]);
        steps_.push_back(std::clamp(done + (std::isfinite(since) ? since : 0.0), 0.0, kMostSteps));
      }
    };
    for (const train::Stretch& stretch : history.stretches) {
      take_until(stretch.begin);
      done = stretch.steps >= 0 ? std::min(stretch.steps, kMostSteps) : steps_.empty() ? 0 : steps_.back();
      for (auto step = steps_.rbegin(); step != steps_.rend() && *step > done; ++step) *step = done;
      times_.push_back(stretch.begin);
      steps_.push_back(done);
    }
    take_until(std::numeric_limits<double>::infinity());
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

/// Takes `mark` and all before it off a line; nothing if it is not there.
std::optional<std::string_view> before(std::string_view& rest, std::string_view mark) {
  const std::size_t at = rest.find(mark);
  if (at == rest.npos) return {};
  const std::string_view text = rest.substr(0, at);
  rest.remove_prefix(at + mark.size());
  return text;
}

/// The same for a number.
std::optional<std::int64_t> number_before(std::string_view& rest, std::string_view mark) {
  const auto text = before(rest, mark);
  return text ? base::try_number<std::int64_t>(*text) : std::nullopt;
}

// What the lines of train::Reporter hold besides the curves.
struct Evaluated {
  std::string opponent;
  std::int64_t games = 0;
};

/// "[Evaluation at episode 40] against level2: won 50.0 % [40.4, 59.6] of 100 games, ..."
std::optional<std::pair<std::int64_t, Evaluated>> evaluation_of(std::string_view line) {
  if (before(line, "[Evaluation at episode ") != "") return {};
  const auto episode = number_before(line, "] against ");
  const auto opponent = before(line, ": won ");
  if (!episode || !opponent || !before(line, "] of ")) return {};
  const auto games = number_before(line, " games");
  if (!games || *games < 0) return {};
  return std::pair{*episode, Evaluated{std::string(*opponent), *games}};
}

/// "[League at episode 40] Elo 120 [80, 160] above ..."
std::optional<std::pair<std::int64_t, std::array<std::int64_t, 2>>> league_of(std::string_view line) {
  if (before(line, "[League at episode ") != "") return {};
  const auto episode = number_before(line, "] Elo ");
  if (!episode || !number_before(line, " [")) return {};
  const auto low = number_before(line, ", "), high = number_before(line, "]");
  if (!low || !high) return {};
  return std::pair{*episode, std::array{*low, *high}};
}

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

ordered_json evaluations(const History& history, const Axes& axes, Said& said) {
  std::map<std::int64_t, Evaluated> logged;
  for (const train::LogLine& line : history.log)
    if (auto found = evaluation_of(line.text))
      logged.insert_or_assign(found->first, std::move(found->second));
  const Evaluated usual{said.text(history.settings, "eval_opponent"),
                        static_cast<std::int64_t>(said.number(history.settings, "eval_games", 0, 0, 1e12))};
  ordered_json all = ordered_json::array();
  const Curve* rates = find(history, "eval/win_rate");
  const std::size_t count = rates == nullptr ? 0 : rates->time.size();
  const std::size_t every = 1 + (count == 0 ? 0 : (count - 1) / kMostEvaluations);
  for (std::size_t i = 0; i < count; ++i) {
    if (i % every != 0 && i + 1 != count) continue;
    const auto found = logged.find(rates->episode[i]);
    const Evaluated& of = found == logged.end() ? usual : found->second;
    ordered_json point = {{"minutes", axes.minutes(rates->time[i])},
                          {"steps", axes.steps(rates->time[i])},
                          {"episodes", rates->episode[i]},
                          {"value", exact(rates->value[i])},
                          {"low", nullptr},
                          {"high", nullptr},
                          {"games", of.games},
                          {"opponent", of.opponent}};
    if (rates->value[i] >= 0 && rates->value[i] <= 1) {
      const std::int64_t wins =
          std::llround(static_cast<double>(rates->value[i]) * static_cast<double>(of.games));
      const play::Interval ci = play::wilson_interval(wins, of.games);
      point.update({{"low", tidy(ci.low)}, {"high", tidy(ci.high)}});
    }
    all.push_back(point);
  }
  return all;
}

ordered_json league(const History& history, const Axes& axes) {
  std::map<std::int64_t, std::array<std::int64_t, 2>> intervals;
  for (const train::LogLine& line : history.log)
    if (const auto found = league_of(line.text)) intervals.insert_or_assign(found->first, found->second);
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

// What a run's settings are compared with: the preset's, else its learner's defaults.
ordered_json base_settings(const std::string& preset, const std::string& algo) {
  train::TrainOptions options;
  if (!preset.empty()) {
    options = train::options_of_file(records::read_file(preset), preset, {"run"});
  } else if (learners::is_learner(algo)) {  // a later version may have others
    options = train::usual_options(algo);
  }
  return config::to_json(train::fields(options));
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
std::string settings_without_seed(ordered_json settings, const ordered_json& about) {
  const ordered_json ranks = about.value("world_size", ordered_json(1));
  for (const char* name : {"seed", "run", "runs_dir", "resume", "log_dir"}) settings.erase(name);
  return settings.dump() + ranks.dump();
}

/// Pages of the last evaluation's games, as far as they fit.
ordered_json games_of(const std::string& folder, std::size_t& room, std::vector<std::string>& damage) {
  ordered_json all = ordered_json::array();
  for (const char* name : {"best", "median", "worst"}) {
    const std::string path = folder + "/evaluation/" + name + ".json";
    try {
      if (!records::is_there(path)) continue;
      const records::RecordedGame game = records::nth_game(path, 0);
      std::string page = replay_page(game, {path, 0, {}});
      if (page.size() > room) {
        all.push_back({{"name", name}, {"path", path}});
        continue;
      }
      room -= page.size();
      int score[2] = {0, 0};
      for (const records::RecordedStep& step : game.steps)
        for (int i = 0; i < game::kSnakes; ++i)
          score[i / game::kTeamSize] += step.reward[static_cast<std::size_t>(i)];
      all.push_back({{"name", name}, {"names", game.names}, {"score", score}, {"page", std::move(page)}});
    } catch (const base::FileError& e) {
      damage.emplace_back(e.what());
    } catch (const base::UsageError&) {  // from nth_game
      damage.push_back(path + " contains no game.");
    }
  }
  return all;
}

}  // namespace

ordered_json report_data(const ReportOptions& options) {
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
    std::vector<std::string> damage = history.damage;
    Said said{damage};
    const std::string algo = said.text(history.settings, "algo");
    const ordered_json about = said.about(history.settings);
    const std::string settings = settings_without_seed(history.settings, about);
    const auto group = std::find(groups.begin(), groups.end(), settings) - groups.begin();
    if (group == static_cast<std::ptrdiff_t>(groups.size())) groups.push_back(settings);
    const double last = history.stretches.empty() ? 0 : history.stretches.back().end;
    ordered_json run = {{"name", std::filesystem::path(folder).filename().string()},
                        {"folder", folder},
                        {"group", group},
                        {"seed", history.settings.value("seed", ordered_json())},
                        {"algo", algo},
                        {"about", about},
                        {"minutes", axes.minutes(last)},
                        {"steps", axes.steps(last)},
                        {"episodes", axes.episodes(last)}};
    if (!history.log.empty()) {
      run["began"] = clock_text(history.log.front().time);
      run["last"] = clock_text(history.log.back().time);
    }
    add_log(history, axes, run);
    run["damage"] = nullptr;  // its place; what follows finds more
    run["evaluations"] = evaluations(history, axes, said);
    run["league"] = league(history, axes);
    const Curve playing = playing_share(history, about.value("world_size", 1.0));
    run["shares"] = {{"playing", mean_of(&playing)},
                     {"averaging", mean_of(find(history, "perf/allreduce_share"))}};
    ordered_json& curves = run["curves"] = ordered_json::object();
    for (const auto& [tag, curve] : history.curves)
      if (!curve.time.empty()) curves[tag] = curve_json(curve, axes, most);
    if (!playing.time.empty()) curves["time/playing"] = curve_json(playing, axes, most);
    run["settings"] = differences(history.settings, base_settings(options.preset, algo));
    run["ladder"] = run_ladder(folder, options.champion, options.ladder_games, history.is_running);
    run["games"] = games_of(folder, room, damage);
    run["damage"] = damage;
    runs.push_back(std::move(run));
  }
  return {{"made", clock_text(static_cast<double>(std::time(nullptr)))},
          {"preset", options.preset.empty() ? ordered_json() : ordered_json(options.preset)},
          {"runs", runs}};
}

}  // namespace snake_ddp::app
