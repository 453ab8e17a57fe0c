#include "app/report_data.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/ladder.hpp"
#include "app/replay_page.hpp"
#include "io/atomic_file.hpp"
#include "io/folders.hpp"
#include "io/game_log.hpp"
#include "io/json_text.hpp"
#include "learners/registry.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/play/match.hpp"
#include "train/history.hpp"
#include "train/options.hpp"

namespace snake_ddp::app {
namespace {

using nlohmann::ordered_json;

using train::Curve;
using train::History;

constexpr std::size_t kMostEvaluations = 400, kMostNotes = 100;
constexpr std::size_t kPointsOfAll = 480;  // per curve, over all runs together
constexpr std::size_t kMostGameBytes = 600'000;

// Rounded to six digits.
double tidy(double value) { return core::try_number<double>(fmt::format("{:.6g}", value)).value_or(value); }

std::string clock_text(double time) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<std::time_t>(time)));
}

// Values of a run's files, which may be a stranger's. One of another kind than expected goes to `damage`.
struct Said {
  std::vector<std::string>& damage;

  // Empty if it is missing or not text.
  std::string text(const ordered_json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end()) return {};
    if (found->is_string()) return found->get<std::string>();
    return expected(name, *found, "a text"), std::string();
  }
  // `otherwise` if it is missing or not such a number.
  double number(const ordered_json& object, const char* name, double otherwise, double least, double most) {
    const auto found = object.find(name);
    if (found == object.end()) return otherwise;
    if (found->is_number() && found->get<double>() >= least && found->get<double>() <= most)
      return found->get<double>();
    return expected(name, *found, fmt::format("a number from {:g} to {:g}", least, most)), otherwise;
  }
  // The run's entry in config.json, with what the page shows of it as expected.
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

double minutes_of(const train::Moment& at) { return std::round(at.minutes * 1e4) / 1e4; }

// A point's place on the three axes.
ordered_json point_at(const train::Moment& at) {
  return {{"minutes", minutes_of(at)}, {"steps", at.steps}, {"episodes", at.episode}};
}

// Means of neighbours if there are more than `most` points.
ordered_json curve_json(const Curve& curve, std::size_t most) {
  const std::size_t count = curve.at.size(), places = std::min(count, most);
  ordered_json minutes = ordered_json::array(), steps = minutes, episodes = minutes, values = minutes;
  for (std::size_t place = 0; place < places; ++place) {
    const std::size_t begin = place * count / places, end = (place + 1) * count / places;
    train::Moment mean;
    double step = 0, episode = 0, value = 0;
    for (std::size_t i = begin; i < end; ++i) {
      mean.minutes += curve.at[i].minutes;
      step += static_cast<double>(curve.at[i].steps);
      episode += static_cast<double>(curve.at[i].episode);
      value += curve.value[i];
    }
    const auto n = static_cast<double>(end - begin);
    mean.minutes /= n;
    minutes.push_back(minutes_of(mean));
    steps.push_back(std::llround(step / n));
    episodes.push_back(std::llround(episode / n));
    values.push_back(end - begin == 1 ? value : tidy(value / n));
  }
  return {{"minutes", minutes}, {"steps", steps}, {"episodes", episodes}, {"values", values}};
}

const Curve* find(const History& history, const char* tag) {
  const auto found = history.curves.find(tag);
  return found == history.curves.end() ? nullptr : &found->second;
}

// The share of the time between two points that was spent on playing.
Curve playing_share(const History& history, double ranks) {
  Curve share;
  const Curve* played = find(history, "collect/play_seconds");
  for (std::size_t i = 1; played != nullptr && i < played->at.size(); ++i) {
    const double passed = 60 * (played->at[i].minutes - played->at[i - 1].minutes);
    const double seconds = (played->value[i] - played->value[i - 1]) / ranks;
    if (!(passed > 0 && seconds >= 0)) continue;  // there was a start in between
    share.at.push_back(played->at[i]);
    share.value.push_back(std::min(1.0, seconds / passed));
  }
  return share;
}

ordered_json mean_of(const Curve* curve) {
  if (curve == nullptr || curve->value.empty()) return nullptr;
  double sum = 0;
  for (const double value : curve->value) sum += value;
  return tidy(sum / static_cast<double>(curve->value.size()));
}

struct LineKind {
  const char *begin, *holds;  // the line's beginning, and a text that it contains
  const char* mark;           // on the time line; empty: none
};
constexpr LineKind kLines[] = {{"episode ", "  reward ", ""},
                               {"[Episode ", "", ""},
                               {"[Evaluation at ", "", ""},
                               {"[League at ", "", ""},
                               {"Run folder: ", "", ""},
                               {"Settings hash", "", ""},
                               {"Chosen for this machine: ", "", ""},
                               {"Boards of each rank: ", "", ""},
                               {"First update after ", "", ""},
                               {"On the CPU: ", "", ""},
                               {"Fingerprint: ", "", ""},
                               {"snake_ddp ", " on ", "start"},
                               {"Resumed from checkpoint ", "", "resumed"},
                               {"Checkpoint step ", " MB in ", "checkpoint"},
                               {"Saved at episode ", "", "saved"},
                               {"Training completed! ", "", "end"},
                               {"Stopped by a signal ", "", "stopped"}};

// The mark of a line; nothing for a line of another kind, which is worth reading.
std::optional<std::string> mark_of(const std::string& text) {
  for (const LineKind& kind : kLines)
    if (text.starts_with(kind.begin) && text.find(kind.holds) != std::string::npos) return kind.mark;
  return std::nullopt;
}

ordered_json evaluations(const History& history) {
  ordered_json all = ordered_json::array();
  const std::size_t count = history.evaluations.size();
  const std::size_t every = 1 + (count == 0 ? 0 : (count - 1) / kMostEvaluations);
  for (std::size_t i = 0; i < count; ++i) {
    if (i % every != 0 && i + 1 != count) continue;
    const train::Evaluated& e = history.evaluations[i];
    ordered_json point = point_at(e.at);
    point.update({{"value", e.win_rate},
                  {"low", nullptr},
                  {"high", nullptr},
                  {"games", e.games},
                  {"opponent", e.opponent}});
    if (e.win_rate >= 0 && e.win_rate <= 1) {
      const play::Interval ci =
          play::wilson_interval(std::llround(e.win_rate * static_cast<double>(e.games)), e.games);
      point.update({{"low", tidy(ci.low)}, {"high", tidy(ci.high)}});
    }
    all.push_back(point);
  }
  return all;
}

ordered_json league(const History& history) {
  ordered_json all = ordered_json::array();
  for (const train::Rated& r : history.ratings) {
    ordered_json point = point_at(r.at);
    point.update({{"value", r.elo}, {"low", r.low}, {"high", r.high}});
    all.push_back(point);
  }
  return all;
}

// Marks of the time line, lines worth reading, and how the run ended.
void add_log(const History& history, ordered_json& run) {
  ordered_json marks = ordered_json::array(), notes = ordered_json::array();
  std::string state = "died";
  for (const train::LogLine& line : history.log) {
    const std::optional<std::string> mark = mark_of(line.text);
    const train::Moment at = history.moment_at(line.time);
    if (!mark) {
      notes.push_back({{"minutes", minutes_of(at)}, {"time", clock_text(line.time)}, {"text", line.text}});
    } else if (!mark->empty()) {
      marks.push_back({{"kind", *mark},
                       {"minutes", minutes_of(at)},
                       {"steps", at.steps},
                       {"episodes", at.episode},
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
    options = train::options_of_file(io::read_file(preset), preset, {"run"});
  } else if (learners::is_learner(algo)) {  // a later version may have others
    options = train::usual_options(algo);
  }
  return io::to_json(train::fields(options));
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

// The key that runs share if they differ only in their seed.
std::string settings_without_seed(ordered_json settings, const ordered_json& about) {
  const ordered_json ranks = about.value("world_size", ordered_json(1));
  for (const char* name : {"seed", "run", "runs_dir", "resume", "log_dir"}) settings.erase(name);
  return settings.dump() + ranks.dump();
}

// Pages of the last evaluation's games, as far as they fit.
ordered_json games_of(const std::string& folder, std::size_t& room, std::vector<std::string>& damage) {
  ordered_json all = ordered_json::array();
  for (const char* name : {"best", "median", "worst"}) {
    const std::string path = folder + "/evaluation/" + name + ".json";
    try {
      if (!io::is_there(path)) continue;
      const io::RecordedGame game = io::nth_game(path, 0);
      std::string page = replay_page(game, {path, 0, {}});
      if (page.size() > room) {
        all.push_back({{"name", name}, {"path", path}});
        continue;
      }
      room -= page.size();
      int score[2] = {0, 0};
      for (const io::RecordedStep& step : game.steps)
        for (int i = 0; i < game::kSnakes; ++i)
          score[i / game::kTeamSize] += step.reward[static_cast<std::size_t>(i)];
      all.push_back({{"name", name}, {"names", game.names}, {"score", score}, {"page", std::move(page)}});
    } catch (const core::FileError& e) {
      damage.emplace_back(e.what());
    } catch (const core::UsageError&) {  // from nth_game
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
    std::vector<std::string> damage = history.damage;
    Said said{damage};
    const std::string algo = said.text(history.settings, "algo");
    const ordered_json about = said.about(history.settings);
    const std::string settings = settings_without_seed(history.settings, about);
    const auto group = std::find(groups.begin(), groups.end(), settings) - groups.begin();
    if (group == static_cast<std::ptrdiff_t>(groups.size())) groups.push_back(settings);
    const train::Moment last = history.moments.empty() ? train::Moment() : history.moments.back();
    ordered_json run = {{"name", std::filesystem::path(folder).filename().string()},
                        {"folder", folder},
                        {"group", group},
                        {"seed", history.settings.value("seed", ordered_json())},
                        {"algo", algo},
                        {"about", about},
                        {"minutes", minutes_of(last)},
                        {"steps", last.steps},
                        {"episodes", last.episode}};
    if (!history.log.empty()) {
      run["began"] = clock_text(history.log.front().time);
      run["last"] = clock_text(history.log.back().time);
    }
    add_log(history, run);
    run["damage"] = nullptr;  // its place; what follows finds more
    run["evaluations"] = evaluations(history);
    run["league"] = league(history);
    const Curve playing = playing_share(history, about.value("world_size", 1.0));
    run["shares"] = {{"playing", mean_of(&playing)},
                     {"averaging", mean_of(find(history, "perf/allreduce_share"))}};
    ordered_json& curves = run["curves"] = ordered_json::object();
    for (const auto& [tag, curve] : history.curves) curves[tag] = curve_json(curve, most);
    if (!playing.at.empty()) curves["time/playing"] = curve_json(playing, most);
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
