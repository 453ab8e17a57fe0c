// The folder of a checkpoint, and the folder of a run's checkpoints. The contents of the files are up to the writer;
// this code makes a checkpoint complete or absent. What changes something refuses a <run>/checkpoints that is a link: it may
// lead to another run's.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/sealed_file.hpp"

namespace snake_ddp::io {

struct CheckpointFile {
  std::string name;  // in the checkpoint's folder
  Seal seal;
};

/// The contents of manifest.json. A folder with a readable manifest has all files that it names.
struct Manifest {
  std::int64_t step = 0;
  std::int64_t updates = 0;
  std::int64_t episode = 0;
  int world_size = 0;
  std::string version;
  std::string run;  // the run's id
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  std::vector<CheckpointFile> files;

  /// Null if the manifest does not name the file.
  [[nodiscard]] const Seal* find(const std::string& name) const;
};

/// <run>/checkpoints/step_000000001234
std::string checkpoint_folder(const std::string& run, std::int64_t step);

/// <run>/checkpoints/<name>
std::string checkpoint_folder(const std::string& run, const std::string& name);

/// Where the files of a checkpoint are written until it is complete: <run>/checkpoints/.step_000000001234.
/// Created if missing. Every rank may call it.
/// Throws  FileError.
std::string unfinished_checkpoint(const std::string& run, std::int64_t step);

/// Completes the unfinished checkpoint: manifest, its name, `latest`; then removes the oldest, so that
/// `keep` are left. A checkpoint of the same step is replaced.
/// Throws  FileError, also if its folder or a file of the manifest is missing or has another size; the older
///         ones are then unchanged.
void finish_checkpoint(const std::string& run, const Manifest& manifest, int keep);

/// Removes the remains of unfinished checkpoints. What cannot be removed stays: this only frees space.
void discard_unfinished(const std::string& run);

/// Steps of the checkpoints in the run's folder, newest first. Files and dangling links with such a name do not count.
/// Throws  SystemError if the folder cannot be listed; a missing folder is not an error.
std::vector<std::int64_t> checkpoints_of(const std::string& run);

/// Names of the folders that set_aside() made, newest first.
/// Throws  SystemError if the folder cannot be listed; a missing folder is not an error.
std::vector<std::string> damaged_checkpoints_of(const std::string& run);

/// Throws  DamagedFile if the folder has none, or it differs from what was written; SystemError if it cannot be read; a
///         plain FileError if it has another format, or names files outside of the folder.
Manifest read_manifest(const std::string& checkpoint);

/// Reads every file of the checkpoint.
/// Throws  like read_manifest and SealedReader, for the first file that is not as expected.
Manifest verify_checkpoint(const std::string& checkpoint);

/// Renames a damaged checkpoint, so that it is not tried again or counted as one to keep. Never overwrites another.
/// Returns the new name; empty if that failed, which is not an error.
std::string set_aside(const std::string& run, std::int64_t step);

/// Makes <run>/checkpoints/<name>, of this step, the run's newest checkpoint under its usual name. Later checkpoints,
/// and another one of that step, are renamed to left_step_…; returns the new names.
/// Throws  FileError.
std::vector<std::string> take_up(const std::string& run, const std::string& name, std::int64_t step);

/// Creates <run>/checkpoints/resumable, which tells programs that start runs that this one was stopped and can be
/// resumed. On a full disk it may be empty.
/// Throws  FileError if it cannot be created.
void mark_resumable(const std::string& run, bool resumable);

}  // namespace snake_ddp::io
