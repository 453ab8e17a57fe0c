#include "io/run_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "io/atomic_file.hpp"
#include "io/file_error.hpp"
#include "io/folders.hpp"
#include "io/metrics.hpp"
#include "io/open_file.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRun = "run";
constexpr int kMostClaims = 10'000;  // as many processes may have been faster
constexpr std::string_view kModelFolder = "trained_model";

// The number between `before` and `after`, if `name` is nothing else.
std::optional<std::int64_t> number_within(std::string_view name, std::string_view before,
                                          std::string_view after) {
  if (!name.starts_with(before) || !name.ends_with(after) || name.size() <= before.size() + after.size())
    return {};
  const std::string_view digits = name.substr(before.size(), name.size() - before.size() - after.size());
  const auto number = core::try_number<std::int64_t>(digits);
  return number && *number >= 0 ? number : std::nullopt;
}

// 12 of "run12" and "run12_20260131_235959".
std::optional<std::int64_t> run_number(std::string_view name) {
  return number_within(name.substr(0, name.find('_')), kRun, "");
}

// New runs get lower numbers, and none of a folder with a number like this is the newest.
constexpr std::int64_t kMostRuns = 1'000'000'000'000'000;

// A number that another process is claiming right now: ".run12".
std::optional<std::int64_t> claimed_number(std::string_view name) {
  return name.starts_with('.') ? number_within(name.substr(1), kRun, "") : std::nullopt;
}

std::string time_stamp() { return fmt::format("{:%Y%m%d_%H%M%S}", fmt::localtime(std::time(nullptr))); }

std::int64_t highest_number(const fs::path& runs) {
  std::int64_t highest = 0;
  for (const std::string& name : names_in(runs)) {
    for (const std::int64_t number : {run_number(name).value_or(0), claimed_number(name).value_or(0)})
      if (number < kMostRuns) highest = std::max(highest, number);
  }
  return highest;
}

// A file with a run's name, such as an archive of it.
bool is_no_folder(const fs::path& entry) {
  std::error_code error;  // entries that cannot be read are reported by the code that opens them
  const fs::file_type type = fs::status(entry, error).type();
  return type != fs::file_type::directory && type != fs::file_type::none;
}

bool has_run(const fs::path& runs, std::int64_t number) {
  const auto names = names_in(runs);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return run_number(name) == number; });
}

std::string run_text(std::int64_t number) { return std::string(kRun) + std::to_string(number); }

fs::path model_file(const fs::path& run, std::string_view network, std::int64_t episode) {
  return run / kModelFolder / (std::string(network) + "_" + std::to_string(episode) + ".pth");
}

std::string joined(const std::vector<std::string>& items, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(items.size(), most); ++i) text += (i == 0 ? "" : ", ") + items[i];
  if (items.size() > most) text += " and " + std::to_string(items.size() - most) + " more";
  return text;
}

bool is_there(const fs::path& path) {
  std::error_code hidden;  // unreadable counts as missing
  return fs::exists(path, hidden);
}

// Those of which a run has both networks, ascending.
std::vector<std::int64_t> saved_episodes(const fs::path& run) {
  std::vector<std::int64_t> episodes;
  for (const std::string& name : names_in(run / kModelFolder)) {
    const auto episode = number_within(name, "actor_", ".pth");
    if (episode && is_there(model_file(run, "critic", *episode))) episodes.push_back(*episode);
  }
  std::sort(episodes.begin(), episodes.end());
  return episodes;
}

// "run2_20260131_235959 (episodes 1000, 2000)"
std::string describe_run(const fs::path& run) {
  std::vector<std::int64_t> episodes;
  try {
    episodes = saved_episodes(run);
  } catch (const SystemError& e) {
    return run.filename().string() + " (" + std::strerror(e.number) + ")";
  }
  std::vector<std::string> texts;
  for (const std::int64_t episode : episodes) texts.push_back(std::to_string(episode));
  return run.filename().string() +
         (texts.empty() ? " (no weights)" : " (episodes " + joined(texts, 20) + ")");
}

std::string describe_runs(const fs::path& runs) {
  std::vector<std::string> texts;
  for (const std::string& name : names_in(runs)) {
    if (run_number(name) && !is_no_folder(runs / name)) texts.push_back(describe_run(runs / name));
  }
  return "\n  " + runs.string() + ": " + (texts.empty() ? "no runs" : joined(texts, 20));
}

// Whether `name` is one of those that kRunFiles describes by `pattern`, which has one such part at most.
bool is_named(std::string_view pattern, std::string_view name) {
  const std::size_t from = pattern.find_first_of("{*"), to = pattern.find_last_of("}*");
  if (from == pattern.npos) return name == pattern;
  const std::string_view before = pattern.substr(0, from), after = pattern.substr(to + 1);
  return name.size() > before.size() + after.size() && name.starts_with(before) && name.ends_with(after);
}

// The files that a start puts into a new run's folder.
bool is_of_a_start(const fs::path& entry) {
  std::error_code error;
  if (fs::is_directory(entry, error)) return fs::is_empty(entry, error);
  const std::string name = entry.filename().string();
  return std::any_of(std::begin(kRunFiles), std::end(kRunFiles),
                     [&](const RunFile& file) { return file.of_start && is_named(file.name, name); });
}

}  // namespace

bool is_run_name(std::string_view name) {
  constexpr std::size_t kMost = 100;
  return name.size() <= kMost && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                  c == '-' || c == '_';
         });
}

RunFolder create_run_folder(const std::string& runs_dir, const std::string& game_name,
                            const std::string& name) {
  const fs::path runs = fs::path(runs_dir) / game_name;
  make_folders(runs.string());
  // The final name contains the time, so two processes could make run3_..58 and run3_..59. Both first make .run3,
  // which only one can; a later one, with an old listing, finds the renamed folder and tries the next number.
  for (int tries = 0;; ++tries) {
    std::int64_t number = highest_number(runs) + 1;
    while (has_run(runs, number)) ++number;
    const fs::path claim = runs / (std::string(".") + run_text(number));
    if (::mkdir(claim.c_str(), 0777) != 0) {
      if (errno == EEXIST && tries < kMostClaims) continue;
      throw file_error("make folder", claim.string(), errno);
    }
    if (has_run(runs, number)) {
      ::rmdir(claim.c_str());
      continue;
    }
    const fs::path models = claim / kModelFolder;
    const fs::path final_path =
        runs / (run_text(number) + "_" + time_stamp() + (name.empty() ? "" : "_" + name));
    if (::mkdir(models.c_str(), 0777) != 0 || ::rename(claim.c_str(), final_path.c_str()) != 0) {
      const int error = errno;
      ::rmdir(models.c_str());
      ::rmdir(claim.c_str());
      throw file_error("make folder", final_path.string(), error);
    }
    return {final_path.string(), number};
  }
}

NewRun::~NewRun() {
  if (begun_) return;
  std::error_code error;
  fs::directory_iterator it(folder_, error);
  std::vector<fs::path> entries;
  for (; !error && it != fs::directory_iterator(); it.increment(error)) entries.push_back(it->path());
  if (error || !std::all_of(entries.begin(), entries.end(), is_of_a_start)) return;
  for (const fs::path& entry : entries) fs::remove(entry, error);
  fs::remove(folder_, error);
}

std::vector<std::string> run_folders(const std::string& runs_dir, const std::string& game_name) {
  const fs::path runs = fs::path(runs_dir) / game_name;
  std::vector<std::string> names = names_in(runs);
  std::erase_if(names,
                [&](const std::string& name) { return !run_number(name) || is_no_folder(runs / name); });
  std::stable_sort(names.begin(), names.end(), [](const auto& a, const auto& b) {
    const std::int64_t first = *run_number(a), second = *run_number(b);
    return (first < kMostRuns) != (second < kMostRuns) ? first < kMostRuns : first > second;
  });
  for (std::string& name : names) name = (runs / name).string();
  return names;
}

// Locks the folder and a file in it: network file systems lock only files that are open for writing, and versions
// before this one lock the folder alone.
RunClaim::RunClaim(const std::string& folder, const char* log, const char* otherwise,
                   std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  const auto hold = [&](core::Descriptor descriptor) {
    const core::Descriptor& file = descriptors_.emplace_back(std::move(descriptor));
    while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return;
      if (std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        continue;
      }
      throw core::FileError(fmt::format("{} is being written by another process: stop that one first, or {}",
                                        folder, otherwise));
    }
  };
  core::Descriptor itself(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!itself.open()) throw file_error("open", folder, errno);
  hold(std::move(itself));
  hold(open_to_append(fmt::format("{}/{}", folder, log), true));
}

bool is_claimed(const std::string& folder) {
  const core::Descriptor log(::open((folder + "/train.log").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return log.open() && ::flock(log.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

RunModel model_at(const std::string& path) {
  const fs::path given(path);
  std::error_code error;
  if (fs::is_directory(given, error)) {
    const std::vector<std::int64_t> episodes = saved_episodes(given);
    if (episodes.empty())
      throw core::FileError(
          fmt::format("{} has no weights: no {}/actor_*.pth with a critic_*.pth", path, kModelFolder));
    return {model_file(given, "actor", episodes.back()).string(),
            model_file(given, "critic", episodes.back()).string()};
  }
  if (!is_there(given))
    throw core::FileError(path + ": not found; give an actor_*.pth, or a run's folder for its last one");
  RunModel found{path, ""};
  constexpr std::string_view kActor = "actor_";
  if (const std::string name = given.filename().string(); name.starts_with(kActor)) {
    const fs::path critic = given.parent_path() / ("critic_" + name.substr(kActor.size()));
    if (is_there(critic)) found.critic = critic.string();
  }
  return found;
}

RunModel find_run_model(const std::string& runs_dir, const std::string& game_name, std::int64_t number,
                        std::int64_t episode, const std::string& old_models_dir) {
  const std::array<fs::path, 2> places{fs::path(runs_dir) / game_name, fs::path(old_models_dir) / game_name};
  for (const fs::path& runs : places) {
    const auto names = names_in(runs);
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
      if (run_number(*name) != number) continue;
      const fs::path actor = model_file(runs / *name, "actor", episode);
      const fs::path critic = model_file(runs / *name, "critic", episode);
      if (is_there(actor) && is_there(critic)) return {actor.string(), critic.string()};
    }
  }
  std::string message = "no weights of run " + std::to_string(number) + ", episode " +
                        std::to_string(episode) + " (" + std::string(kModelFolder) + "/actor_" +
                        std::to_string(episode) + ".pth and critic_" + std::to_string(episode) +
                        ".pth). Looked in:";
  for (const fs::path& runs : places) message += describe_runs(runs);
  throw core::FileError(message + "\nChoose others with --load_model_run and --load_model_run_episode.");
}

}  // namespace snake_ddp::io
