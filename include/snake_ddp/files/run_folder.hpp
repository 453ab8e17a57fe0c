// Where a run keeps its files, and where an earlier run left its weights.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace snake_ddp::files {

struct RunFolder {
  std::string path;  // <runs_dir>/<game_name>/run{number}_{YYYYMMDD_HHMMSS}
  std::int64_t number = 0;
};

/// Makes the folder of a new run, with trained_model/ in it, and the folders above it where missing. The
/// number is the highest in <runs_dir>/<game_name> plus one, plain run{N} of older programs included.
/// Processes that start together get different numbers, on network file systems too: mkdir decides. Throws
/// FileError if the place is read-only, full, or not a folder.
RunFolder create_run_folder(const std::string& runs_dir, const std::string& game_name);

/// The folder of a run that is about to begin. Unless it has begun, the destructor removes the folder again; one that
/// holds anything but what a start puts there stays as it is.
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

/// Folders of the runs in <runs_dir>/<game_name>, the one of the highest number first. Files with such a name are none.
/// Throws  SystemError where the place cannot be listed; one that does not exist has none.
std::vector<std::string> run_folders(const std::string& runs_dir, const std::string& game_name);

/// Holds a run's folder for this process until it is gone, so that no two write into it. Makes train.log where it is
/// missing: network file systems lock files only.
/// Throws  FileError if another process holds it. A file system without locks lets everybody in.
class RunClaim {
 public:
  explicit RunClaim(const std::string& folder);
  ~RunClaim();
  RunClaim(const RunClaim&) = delete;
  RunClaim& operator=(const RunClaim&) = delete;

 private:
  RunClaim() = default;
  std::vector<int> descriptors_;
};

/// Paths of two weights files that exist.
struct RunModel {
  std::string actor;
  std::string critic;
};

/// Finds trained_model/actor_{episode}.pth and critic_{episode}.pth of run `number`: a folder run{number}
/// or run{number}_*, first in <runs_dir>/<game_name>, then in <old_models_dir>/<game_name>; of several that
/// have both files, the latest by name in the first place.
/// Throws      FileError that lists the places, the runs there and their episodes.
RunModel find_run_model(const std::string& runs_dir, const std::string& game_name, std::int64_t number,
                        std::int64_t episode, const std::string& old_models_dir = "rl_trainer/models");

}  // namespace snake_ddp::files
