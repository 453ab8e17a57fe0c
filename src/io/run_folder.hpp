// Where a run keeps its files, and where an earlier run's weights are.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "snake_ddp/core/descriptor.hpp"

namespace snake_ddp::io {

struct RunFolder {
  std::string path;  // <runs_dir>/<game_name>/run{number}_{YYYYMMDD_HHMMSS}, with _{name} if there is one
  std::int64_t number = 0;
};

/// What a run's folder holds. Names have a part in braces, or an asterisk, for what differs.
struct RunFile {
  std::string_view name, what;
  bool of_start = false;  // a start writes it before the run has begun
};
/// The only list of them: the reference prints it.
inline constexpr RunFile kRunFiles[] = {
    {"config.json",
     "all settings and, under run, world size, hosts, backend, device and version; --config reads it", true},
    {"train.log", "the console's lines with the time, including those that the console dropped", true},
    {"train.rank{R}.log",
     "of every other rank that sees the folder: start, checkpoints, evaluations, end, errors", true},
    {"metrics.jsonl", "TensorBoard's points, one report a line, for other programs", true},
    {"events.out.tfevents.*", "curves for TensorBoard", true},
    {"trained_model/actor_{episode}.pth",
     "the policy's weights, every --save_interval episodes and at the end"},
    {"trained_model/critic_{episode}.pth", "the critic's, the target's or the mixing network's"},
    {"trained_model/actor_best.pth", "weights of the best evaluation so far"},
    {"trained_model/critic_best.pth", "the critic's, the target's or the mixing network's"},
    {"games/episode_{episode}.json", "a game log every --record_interval episodes"},
    {"evaluation/best.json",
     "game log of the best of rank 0's games in the last evaluation, by the lead at the end"},
    {"evaluation/median.json", "the median one"},
    {"evaluation/worst.json", "the worst one"},
    {"checkpoints/step_{steps}/shared.pth",
     "a checkpoint: weights, targets, moments, counters; at the start, every --checkpoint_interval "
     "episodes and at the end"},
    {"checkpoints/step_{steps}/rank_{R}.pth", "boards, running games and epsilon of a rank"},
    {"checkpoints/step_{steps}/rank_{R}.replay", "its replay, unless --checkpoint_replay is off"},
    {"checkpoints/step_{steps}/manifest.json", "lengths and checksums of these files"},
    {"checkpoints/latest", "name of the newest checkpoint"},
    {"checkpoints/resumable", "there after a stop by a signal, and gone once the run is resumed"},
    {"ladder.json", "results of the games that report played with the last weights"},
};

/// Creates the folder of a new run, with trained_model/ in it, and missing parent folders. The
/// number is the highest in <runs_dir>/<game_name> plus one, including plain run{N} of older programs.
/// Processes that start at the same time get different numbers, also on network file systems, because mkdir decides.
/// Throws  FileError if the place is read-only, full, or not a folder.
RunFolder create_run_folder(const std::string& runs_dir, const std::string& game_name,
                            const std::string& name = "");

/// Whether a folder's name may end with it: a short plain word, or nothing.
bool is_run_name(std::string_view name);

/// The folder of a run that is about to begin. Unless the run has begun, the destructor removes the folder again if
/// it contains only the files of a start.
class NewRun {
 public:
  explicit NewRun(std::string folder) : folder_(std::move(folder)) {}
  ~NewRun();
  NewRun(const NewRun&) = delete;
  NewRun& operator=(const NewRun&) = delete;
  [[nodiscard]] const std::string& folder() const { return folder_; }
  void has_begun() { begun_ = true; }

 private:
  std::string folder_;
  bool begun_ = false;
};

/// Folders of the runs in <runs_dir>/<game_name>, the highest number first. Files with such a name do not count.
/// Throws  SystemError if the place cannot be listed; a missing place has none.
std::vector<std::string> run_folders(const std::string& runs_dir, const std::string& game_name);

/// Locks a run's folder for this process, so that no two write into it. Creates `log` in it if missing: network file
/// systems lock only files.
/// Waits   `patience` for another process, which may be about to end.
/// Throws  FileError if that process still holds the lock; its message ends with `otherwise`, what to do instead of
///         stopping it. A file system without locks lets every process in.
class RunClaim {
 public:
  explicit RunClaim(const std::string& folder, const char* log = "train.log",
                    const char* otherwise = "start a new run with --resume never",
                    std::chrono::milliseconds patience = std::chrono::seconds(5));

 private:
  std::vector<core::Descriptor> descriptors_;
};

/// Whether a process holds this lock. Takes a shared one for a moment.
bool is_claimed(const std::string& folder);

/// Paths of weights files that exist.
struct RunModel {
  std::string actor;
  std::string critic;  // empty if there is none beside the actor
};

/// The weights at `path`: an actor's file, with critic_{episode}.pth beside an actor_{episode}.pth; or the last ones of a run's
/// folder.
/// Throws      FileError if there are none.
RunModel model_at(const std::string& path);

/// Finds trained_model/actor_{episode}.pth and critic_{episode}.pth of run `number`: a folder run{number}
/// or run{number}_*, first in <runs_dir>/<game_name>, then in <old_models_dir>/<game_name>; if several
/// have both files, the last by name in the first place.
/// Throws      FileError that lists the places searched, the runs there and their episodes.
RunModel find_run_model(const std::string& runs_dir, const std::string& game_name, std::int64_t number,
                        std::int64_t episode, const std::string& old_models_dir = "rl_trainer/models");

}  // namespace snake_ddp::io
