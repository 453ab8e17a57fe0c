#include "train/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <type_traits>

#include "io/atomic_file.hpp"
#include "io/folders.hpp"
#include "io/json_text.hpp"
#include "io/lines.hpp"
#include "io/metrics.hpp"
#include "io/run_folder.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::train {
namespace {

// A folder may be a stranger's: what a page can show, and what can be meant.
constexpr std::int64_t kMostEpisodes = 1'000'000'000'000, kMostSteps = 1'000'000'000'000'000;
constexpr double kMostMinutes = 1e8, kMostValue = 1e38;
constexpr std::size_t kMostTags = 500, kMostTagBytes = 200;

// To the year 9999; 0 is a time that was not written.
bool is_time(double seconds) { return seconds > 0 && seconds < 253'402'300'799; }

nlohmann::ordered_json read_settings(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!io::is_there(path))
    throw core::FileError(
        folder + " is not a run folder: it has no config.json; give one like runs/snakes_3v3/run1_…");
  try {
    nlohmann::ordered_json settings = io::parse_ordered_json(io::read_file(path));
    if (!settings.is_object()) throw core::FileError("not an object");
    return settings;
  } catch (const core::FileError& e) {
    throw core::FileError(fmt::format("{}: {}", path, e.what()));
  }
}

// A number of a report that can be meant.
template <class Number>
bool is_within(const nlohmann::ordered_json& report, const char* name, Number most) {
  const auto found = report.find(name);
  return found != report.end() &&
         (std::is_floating_point_v<Number> ? found->is_number() : found->is_number_integer()) &&
         *found >= Number{0} && *found <= most;
}

// NaN if it is none, or so large that a page cannot take differences.
double number_of(const nlohmann::ordered_json& value) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  return std::abs(number) <= kMostValue ? number : std::nan("");
}

// NaN if it is missing, too.
double number_of(const nlohmann::ordered_json& report, const char* name) {
  const auto found = report.find(name);
  return found != report.end() ? number_of(*found) : std::nan("");
}

class Reports {
 public:
  explicit Reports(History& history) : history_(history) {}

  // False if the line is no report of this run at this place.
  bool add(const std::string& line) {
    nlohmann::ordered_json report;
    try {
      report = io::parse_ordered_json(line);
    } catch (const core::FileError&) {
      return false;
    }
    if (!report.is_object() || !is_within(report, "step", kMostSteps) ||
        !is_within(report, "episode", kMostEpisodes) || !is_within(report, "minutes", kMostMinutes) ||
        !is_time(number_of(report, "time")))
      return false;
    Moment at{report["minutes"], report["step"], report["episode"]};
    double time = report["time"];
    if (!history_.moments.empty()) {
      if (at.steps < history_.moments.back().steps) return false;
      at.minutes = std::max(at.minutes, history_.moments.back().minutes);
      time = std::max(time, history_.times.back());
    }
    history_.moments.push_back(at);
    history_.times.push_back(time);
    for (const auto& [name, value] : report.items())
      if (name.find('/') != name.npos && (value.is_number() || value.is_null())) add_point(name, at, value);
    add_judgements(report, at);
    return true;
  }

  [[nodiscard]] std::int64_t left_out() const { return left_out_; }

 private:
  void add_point(const std::string& tag, const Moment& at, const nlohmann::ordered_json& value) {
    const std::string name = core::as_utf8(std::string_view(tag).substr(0, kMostTagBytes));
    if (history_.curves.size() == kMostTags && !history_.curves.contains(name)) {
      ++left_out_;
      return;
    }
    Curve& curve = history_.curves[name];
    curve.at.push_back(at);
    curve.value.push_back(number_of(value));
  }

  void add_judgements(const nlohmann::ordered_json& report, const Moment& at) {
    if (const double rate = number_of(report, "eval/win_rate"); report.contains("eval/win_rate")) {
      const auto opponent = report.find("opponent");
      history_.evaluations.push_back(
          {at, rate, is_within(report, "games", kMostEpisodes) ? report["games"].get<std::int64_t>() : 0,
           opponent != report.end() && opponent->is_string() ? opponent->get<std::string>() : ""});
    }
    if (report.contains("league/elo"))
      history_.ratings.push_back(
          {at, number_of(report, "league/elo"), number_of(report, "elo_low"), number_of(report, "elo_high")});
  }

  History& history_;
  std::int64_t left_out_ = 0;
};

void read_reports(const std::string& folder, History& history) {
  Reports reports(history);
  std::int64_t wrong = 0;
  try {
    io::LineReader lines(fmt::format("{}/{}", folder, io::kMetricsFile));
    for (std::string line; lines.next(line);)
      if (!reports.add(line)) ++wrong;
  } catch (const core::FileError& e) {
    history.damage.emplace_back(e.what());
  }
  if (wrong > 0)
    history.damage.push_back(fmt::format("{} of {} {} left out.", core::counted(wrong, "line"),
                                         io::kMetricsFile,
                                         wrong == 1 ? "is no report; it is" : "are no report; they are"));
  if (reports.left_out() > 0)
    history.damage.push_back(
        fmt::format("{} {} left out: there are more than {}.", core::counted(reports.left_out(), "point"),
                    reports.left_out() == 1 ? "is" : "are", core::counted(kMostTags, "curve")));
}

// "2026-01-31 12:00:00.123 text"; a line without a time continues the one before.
void read_log(const std::string& folder, History& history) {
  constexpr std::size_t kStamp = 24;
  try {
    io::LineReader lines(folder + "/train.log");
    for (std::string line; lines.next(line);) {
      std::tm local{};
      local.tm_isdst = -1;
      const char* rest =
          line.size() >= kStamp ? ::strptime(line.c_str(), "%Y-%m-%d %H:%M:%S.", &local) : nullptr;
      if (rest == nullptr || line[kStamp - 1] != ' ') continue;
      const double time = static_cast<double>(std::mktime(&local)) + std::strtod(rest - 1, nullptr);
      if (is_time(time)) history.log.push_back({time, line.substr(kStamp)});
    }
  } catch (const core::FileError& e) {
    history.damage.emplace_back(e.what());
  }
}

}  // namespace

Moment History::moment_at(double time) const {
  const auto after =
      static_cast<std::size_t>(std::upper_bound(times.begin(), times.end(), time) - times.begin());
  if (after == 0) return {};
  Moment moment = moments[after - 1];
  if (after == times.size()) return moment;
  const Moment& next = moments[after];
  const double passed = time - times[after - 1], share = passed / (times[after] - times[after - 1]);
  moment.minutes = std::min(moment.minutes + passed / 60, next.minutes);
  moment.steps += std::llround(share * static_cast<double>(next.steps - moment.steps));
  return moment;
}

History read_history(const std::string& folder) {
  History history;
  history.settings = read_settings(folder);
  history.is_running = io::is_claimed(folder);
  read_reports(folder, history);
  read_log(folder, history);
  return history;
}

}  // namespace snake_ddp::train
