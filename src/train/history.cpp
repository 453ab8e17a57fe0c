#include "snake_ddp/train/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/text.hpp"
#include "snake_ddp/files/event_reader.hpp"
#include "snake_ddp/files/run_folder.hpp"
#include "snake_ddp/records/atomic_file.hpp"
#include "snake_ddp/records/folders.hpp"
#include "snake_ddp/records/json_text.hpp"
#include "snake_ddp/records/lines.hpp"

namespace snake_ddp::train {
namespace {

namespace fs = std::filesystem;

// A folder may be a stranger's: what a page can show, and what can be meant.
constexpr std::int64_t kMostEpisodes = 1'000'000'000'000;
constexpr std::size_t kMostTags = 500, kMostTagBytes = 200, kMostStarts = 5000;

// To the year 9999; 0 is a time that was not written.
bool is_time(double seconds) { return seconds > 0 && seconds < 253'402'300'799; }

nlohmann::ordered_json read_settings(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!records::is_there(path))
    throw base::FileError(
        folder + " is not a run folder: it has no config.json; give one like runs/snakes_3v3/run1_…");
  try {
    nlohmann::ordered_json settings = records::parse_ordered_json(records::read_file(path));
    if (!settings.is_object()) throw base::FileError("not an object");
    return settings;
  } catch (const base::FileError& e) {
    throw base::FileError(fmt::format("{}: {}", path, e.what()));
  }
}

// The names sort by start time.
std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string& name : records::names_in(folder))
    if (name.starts_with("events.out.tfevents.")) paths.push_back(fs::path(folder) / name);
  return paths;
}

void drop_from(Curve& curve, std::int64_t episode) {
  if (std::none_of(curve.episode.begin(), curve.episode.end(), [&](std::int64_t e) { return e >= episode; }))
    return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < curve.time.size(); ++i) {
    if (curve.episode[i] >= episode) continue;
    curve.time[kept] = curve.time[i];
    curve.episode[kept] = curve.episode[i];
    curve.value[kept++] = curve.value[i];
  }
  curve.time.resize(kept);
  curve.episode.resize(kept);
  curve.value.resize(kept);
}

double last_time(const History& history) {
  double last = 0;
  for (const auto& [tag, curve] : history.curves)
    if (!curve.time.empty()) last = std::max(last, curve.time.back());
  return last;
}

// Puts the points of all starts one after another.
class Stretches {
 public:
  explicit Stretches(History& history) : history_(history), all_(history.stretches) {}

  void begin(double time) {
    end();
    const double last = last_time(history_), begin = all_.empty() ? time : std::max(time, all_.back().end);
    for (Stretch& s : all_) s.end = std::clamp(last, s.begin, s.end);
    later_ = begin - time;
    all_.push_back({begin, begin, 60 * history_.minutes(last)});
  }

  // Of a point in the current stretch.
  [[nodiscard]] double time_of(double time) const { return std::max(time + later_, all_.back().begin); }

  void set_earlier(std::string_view tag, double value) {
    if (!(value >= 0 && std::isfinite(value))) return;
    if (tag == kEarlierSteps) all_.back().steps = value;
    if (tag != kEarlierSeconds) return;
    all_.back().seconds = value;
    for (std::size_t i = 0; i + 1 < all_.size(); ++i)
      all_[i].end = all_[i].begin + std::clamp(value - all_[i].seconds, 0.0, all_[i].end - all_[i].begin);
  }

  void end() {
    if (!all_.empty()) all_.back().end = std::max(all_.back().begin, last_time(history_));
  }

 private:
  History& history_;
  std::vector<Stretch>& all_;
  double later_ = 0;  // seconds that the current stretch's clock is behind the last one's end
};

void read_curves(const std::string& folder, History& history) {
  Stretches stretches(history);
  std::int64_t impossible = 0, too_many = 0;
  const auto is_possible = [&](double time, std::int64_t episode) {
    const bool possible = is_time(time) && episode >= 0 && episode <= kMostEpisodes;
    impossible += possible ? 0 : 1;
    return possible;
  };
  const std::vector<std::string> paths = event_files(folder);
  if (paths.empty()) history.damage.emplace_back("There is no event file: no curves.");
  for (const std::string& path : paths) {
    bool first = true;
    const files::EventVisitor visitor{
        [&](double time, std::int64_t episode, std::string_view tag, float value) {
          if (!is_possible(time, episode)) return;
          if (first) stretches.begin(time);
          first = false;
          if (tag == kEarlierSteps || tag == kEarlierSeconds)
            return stretches.set_earlier(tag, static_cast<double>(value));
          const std::string name = base::as_utf8(tag.substr(0, kMostTagBytes));
          if (history.curves.size() == kMostTags && !history.curves.contains(name)) {
            ++too_many;
            return;
          }
          Curve& curve = history.curves[name];
          curve.time.push_back(stretches.time_of(time));
          curve.episode.push_back(episode);
          curve.value.push_back(value);
        },
        [&](double time, std::int64_t episode) {
          if (!is_possible(time, episode)) return;
          if (history.stretches.size() == kMostStarts) {
            ++too_many;
            return;
          }
          for (auto& [tag, curve] : history.curves) drop_from(curve, episode);
          stretches.begin(time);
          first = false;
        }};
    try {
      if (!files::read_events(path, visitor))
        history.damage.push_back(fs::path(path).filename().string() +
                                 " ends within a record; all before it is shown.");
    } catch (const base::FileError& e) {
      history.damage.emplace_back(e.what());
    }
  }
  stretches.end();
  if (impossible > 0)
    history.damage.push_back(fmt::format(
        "{} points or starts of the event files have an impossible time or episode; they are left out.",
        impossible));
  if (too_many > 0)
    history.damage.push_back(
        fmt::format("{} points or starts are left out: there are more than {} curves or {} starts.", too_many,
                    kMostTags, kMostStarts));
}

// "2026-01-31 12:00:00.123 text"; a line without a time continues the one before.
void read_log(const std::string& folder, History& history) {
  constexpr std::size_t kStamp = 24;
  try {
    records::LineReader lines(folder + "/train.log");
    for (std::string line; lines.next(line);) {
      std::tm local{};
      local.tm_isdst = -1;
      const char* rest =
          line.size() >= kStamp ? ::strptime(line.c_str(), "%Y-%m-%d %H:%M:%S.", &local) : nullptr;
      if (rest == nullptr || line[kStamp - 1] != ' ') continue;
      const double time = static_cast<double>(std::mktime(&local)) + std::strtod(rest - 1, nullptr);
      if (is_time(time)) history.log.push_back({time, line.substr(kStamp)});
    }
  } catch (const base::FileError& e) {
    history.damage.emplace_back(e.what());
  }
}

}  // namespace

double History::minutes(double time) const {
  double seconds = 0;
  for (const Stretch& s : stretches)
    if (time >= s.begin) seconds = s.seconds + std::min(time, s.end) - s.begin;
  return seconds / 60;
}

History read_history(const std::string& folder) {
  History history;
  history.settings = read_settings(folder);
  history.is_running = files::is_claimed(folder);
  read_curves(folder, history);
  read_log(folder, history);
  return history;
}

}  // namespace snake_ddp::train
