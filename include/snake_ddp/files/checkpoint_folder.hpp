// The folder of a checkpoint, and the folder of a run's checkpoints. What the files in it hold is the writer's
// affair; here is what makes them one whole or nothing.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "snake_ddp/records/sealed_file.hpp"

namespace snake_ddp::files {

struct CheckpointFile {
  std::string name;  // in the checkpoint's folder
  records::Seal seal;
};

/// What manifest.json says. A folder with one that can be read holds all files it names.
struct Manifest {
  std::int64_t step = 0;
  std::int64_t updates = 0;
  std::int64_t episode = 0;
  int world_size = 0;
  std::string version;
  std::string run;  // whose it is; empty where the version that wrote it did not tell
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  std::vector<CheckpointFile> files;

  /// Null if the manifest names no such file.
  [[nodiscard]] const records::Seal* find(const std::string& name) const;
};

/// <run>/checkpoints/step_000000001234
std::string checkpoint_folder(const std::string& run, std::int64_t step);

/// <run>/checkpoints/<name>
std::string checkpoint_folder(const std::string& run, const std::string& name);

/// Where the files of a checkpoint are written until it is whole: <run>/checkpoints/.step_000000001234.
/// Made where missing. Every rank may call it.
/// Throws  FileError.
std::string unfinished_checkpoint(const std::string& run, std::int64_t step);

/// Makes the unfinished checkpoint whole: manifest, its name, `latest`; then removes the oldest, so that
/// `keep` are left. A checkpoint of the same step is replaced.
/// Throws  FileError, also where its folder or a file of the manifest is missing or has another size; then the older
///         ones are as they were.
void finish_checkpoint(const std::string& run, const Manifest& manifest, int keep);

/// Removes what unfinished checkpoints left. Errors are ignored: it is about room only.
void discard_unfinished(const std::string& run);

/// Steps of the checkpoints in the run's folder, newest first. Files and dangling links with such a name are none.
/// Throws  SystemError where the folder cannot be listed; none is no error.
std::vector<std::int64_t> checkpoints_of(const std::string& run);

/// Names of the folders that set_aside() made, newest first.
/// Throws  SystemError where the folder cannot be listed; none is no error.
std::vector<std::string> damaged_checkpoints_of(const std::string& run);

/// Throws  DamagedFile where the folder has none, or it is not what was written; SystemError where it cannot be read; a
///         plain FileError where it is of another format, or names files outside of the folder.
Manifest read_manifest(const std::string& checkpoint);

/// Reads every file of the checkpoint.
/// Throws  as read_manifest and SealedReader, for the first file that is not as it should be.
Manifest verify_checkpoint(const std::string& checkpoint);

/// Gives a damaged checkpoint another name, so that nobody tries it again or counts it as one to keep. Overwrites none.
/// Returns the new name; empty where that failed, which is no error.
std::string set_aside(const std::string& run, std::int64_t step);

/// Makes <run>/checkpoints/<name>, of this step, the run's newest checkpoint under its usual name. Later ones, and another
/// of that step, are left behind under other names, left_step_…, which it returns.
/// Throws  FileError.
std::vector<std::string> take_up(const std::string& run, const std::string& name, std::int64_t step);

/// <run>/checkpoints/resumable tells programs that start runs that this one was stopped and can go on. On a full disk it
/// may be empty.
/// Throws  FileError where it cannot be made.
void mark_resumable(const std::string& run, bool resumable);

}  // namespace snake_ddp::files
