// The folder of a checkpoint, and the folder of a run's checkpoints. What the files in it hold is the writer's
// affair; here is what makes them one whole or nothing.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "snake_ddp/io/sealed_file.hpp"

namespace snake_ddp::io {

struct CheckpointFile {
  std::string name;  // in the checkpoint's folder
  Seal seal;
};

/// What manifest.json says. A folder with one that can be read holds all files it names.
struct Manifest {
  std::int64_t step = 0;
  std::int64_t updates = 0;
  std::int64_t episode = 0;
  int world_size = 0;
  std::string version;
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  std::vector<CheckpointFile> files;

  /// Null if the manifest names no such file.
  [[nodiscard]] const Seal* find(const std::string& name) const;
};

/// <run>/checkpoints/step_000000001234
std::string checkpoint_folder(const std::string& run, std::int64_t step);

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

/// Steps of the checkpoints in the run's folder, newest first.
/// Throws  FileError where the folder cannot be listed; none is no error.
std::vector<std::int64_t> checkpoints_of(const std::string& run);

/// Throws  FileError: missing, damaged, of another format, or naming files outside of the folder.
Manifest read_manifest(const std::string& checkpoint);

/// Reads every file of the checkpoint.
/// Throws  FileError for the first that is damaged.
Manifest verify_checkpoint(const std::string& checkpoint);

/// Gives a damaged checkpoint another name, so that nobody tries it again or counts it as one to keep.
/// Returns the new name; empty where that failed, which is no error.
std::string set_aside(const std::string& run, std::int64_t step);

/// <run>/checkpoints/resumable tells programs that start runs that this one was stopped and can go on. On a full disk it
/// may be empty.
/// Throws  FileError where it cannot be made.
void mark_resumable(const std::string& run, bool resumable);

}  // namespace snake_ddp::io
