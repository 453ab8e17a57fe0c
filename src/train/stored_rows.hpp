// Replay in a checkpoint, for as many ranks as there are now.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/checkpoint_folder.hpp"
#include "io/sealed_file.hpp"
#include "learners/buffer.hpp"
#include "nets/flat_parameters.hpp"

namespace snake_ddp::train {

/// A rank's replay in a checkpoint.
struct StoredRows {
  std::string path;
  std::int64_t rows, capacity, next, appended;
  bool fits;  // the learner's columns are these
  std::unique_ptr<io::SealedReader> file;
};

/// `part`: the rank's tensors in the checkpoint.
/// Throws  FileError for counts that contradict each other, and if the file cannot be read.
StoredRows open_rows(const std::string& folder, int rank, const nets::NamedTensors& part,
                     const io::Manifest& manifest, const learners::Buffer& replay);

/// Whether rows refer to the previous row of their game. Such rows cannot be redistributed to other ranks.
bool is_linked(const learners::Buffer& replay);

/// What happened to replay on another number of ranks.
std::string dealt_text(const learners::Buffer& replay, bool rollouts, std::int64_t rows);

/// Reads this rank's share of the rows into replay, which is empty.
/// Returns  whether replay is restored row for row.
/// Throws   FileError for a row that replay cannot have.
bool fill_replay(std::vector<StoredRows>& parts, bool same_ranks, int rank, int world_size,
                 learners::Buffer& replay);

}  // namespace snake_ddp::train
