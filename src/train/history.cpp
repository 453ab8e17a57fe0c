#include "snake_ddp/train/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <sstream>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/files/event_reader.hpp"
#include "snake_ddp/files/run_folder.hpp"
#include "snake_ddp/records/atomic_file.hpp"
#include "snake_ddp/records/json_text.hpp"

namespace snake_ddp::train {
namespace {

namespace fs = std::filesystem;

nlohmann::ordered_json read_settings(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!fs::exists(path))
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
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

void drop_from(Curve& curve, std::int64_t episode) {
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

void read_curves(const std::string& folder, History& history) {
  const auto begin = [&](double time) {
    if (!history.stretches.empty())
      history.stretches.back().end = std::max(history.stretches.back().begin, last_time(history));
    history.stretches.push_back({time, time});
  };
  const std::vector<std::string> paths = event_files(folder);
  if (paths.empty()) history.damage.emplace_back("There is no event file: no curves.");
  for (const std::string& path : paths) {
    bool first = true;
    const files::EventVisitor visitor{
        [&](double time, std::int64_t episode, std::string_view tag, float value) {
          if (first) begin(time);
          first = false;
          Curve& curve = history.curves[std::string(tag)];
          curve.time.push_back(time);
          curve.episode.push_back(episode);
          curve.value.push_back(value);
        },
        [&](double time, std::int64_t episode) {
          for (auto& [tag, curve] : history.curves) drop_from(curve, episode);
          begin(time);
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
  if (!history.stretches.empty())
    history.stretches.back().end = std::max(history.stretches.back().begin, last_time(history));
}

// "2026-01-31 12:00:00.123 text"; a line without a time continues the one before.
void read_log(const std::string& folder, History& history) {
  constexpr std::size_t kStamp = 24;
  std::istringstream lines;
  try {
    lines.str(records::read_file(folder + "/train.log"));
  } catch (const base::FileError& e) {
    history.damage.emplace_back(e.what());
    return;
  }
  for (std::string line; std::getline(lines, line);) {
    std::tm local{};
    local.tm_isdst = -1;
    const char* rest =
        line.size() >= kStamp ? ::strptime(line.c_str(), "%Y-%m-%d %H:%M:%S.", &local) : nullptr;
    if (rest == nullptr || line[kStamp - 1] != ' ') continue;
    const double fraction = std::strtod(rest - 1, nullptr);
    history.log.push_back({static_cast<double>(std::mktime(&local)) + fraction, line.substr(kStamp)});
  }
}

}  // namespace

double History::minutes(double time) const {
  double seconds = 0;
  for (const Stretch& s : stretches) seconds += std::clamp(time, s.begin, s.end) - s.begin;
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
