// Full-state checkpoints, written while training continues. The shared part comes from rank 0, a part from each rank;
// docs/reference/formats.md describes their contents.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dist/context.hpp"
#include "io/checkpoint_folder.hpp"
#include "learners/buffer.hpp"
#include "rollout/collector.hpp"
#include "train/counters.hpp"
#include "train/file_teams.hpp"
#include "train/league.hpp"

namespace snake_ddp::learners {
class Learner;
}

namespace snake_ddp::train {

class Averaging;

/// The state that a rank carries from step to step. Owner: the run.
struct RunState {
  learners::Learner& learner;
  rollout::Collector& collector;
  learners::Buffer& replay;
  Counters& counters;
  League& league;
  Averaging& averaging;
  const FileTeams& files;
  rollout::Rollout* rollout;  // null if the learner has none
};

/// Names of a checkpoint's files.
inline const std::string kSharedFile = "shared.pth";
std::string rank_file(int rank);
std::string replay_file(int rank);

class Checkpoints {
 public:
  struct Plan {
    std::string run;  // its folder
    int rank = 0;
    int world_size = 1;
    bool sees_run = true;  // this rank sees the folder; otherwise its part is omitted
    bool with_replay = true;
    int keep = 3;
    std::string version;
    nlohmann::ordered_json settings = nlohmann::ordered_json::object();
    std::string identity;  // of the run; rank 0's is used
  };

  /// The outcome of a checkpoint; on ranks other than 0, of this rank's part.
  struct Outcome {
    std::string failure;  // empty: it is complete
    std::int64_t step = 0;
    std::uint64_t bytes = 0;
    double seconds = 0;  // from begin() on
  };

  explicit Checkpoints(Plan plan) : plan_(std::move(plan)) {}
  /// Stops a write in progress; the partial checkpoint does not count.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// Snapshots the state and writes it in another thread.
  /// Collective  every rank begins at the same step; none may be under way.
  /// Cost        a copy of the learner's and the collector's state; none of replay.
  void begin(const RunState& state);

  /// Whether a checkpoint is in progress: the same on all ranks.
  [[nodiscard]] bool under_way() const { return stage_ != Stage::kNone; }

  /// Whether this rank's thread is still busy.
  [[nodiscard]] bool busy() const;

  /// Advances by one stage when no rank is busy: first the parts, then the manifest. Returns the outcome after the
  /// second stage.
  /// Collective  every rank calls it once all agree that none is busy.
  std::optional<Outcome> advance(dist::DistContext& context);

  /// Waits for the checkpoint in progress.
  /// Collective  every rank calls it.
  /// Returns     its failure on all ranks.
  Outcome complete(dist::DistContext& context);

 private:
  enum class Stage { kNone, kParts, kWhole };
  // The result of a thread.
  struct Written {
    std::vector<io::CheckpointFile> files;
    std::string failure;
  };

  Plan plan_;
  Stage stage_ = Stage::kNone;
  io::Manifest manifest_;
  std::chrono::steady_clock::time_point begun_;
  std::string failure_;  // on rank 0: why it cannot be completed
  std::atomic<bool> stop_ = false;
  std::future<Written> job_;
};

}  // namespace snake_ddp::train
