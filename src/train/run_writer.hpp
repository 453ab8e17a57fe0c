// What rank 0 writes of a run besides its checkpoints: the folder, its settings, weights.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "dist/context.hpp"
#include "io/run_folder.hpp"
#include "train/origin.hpp"
#include "train/plan.hpp"
#include "weights.hpp"

namespace snake_ddp::learners {
class Learner;
}

namespace snake_ddp::train {

class RunWriter {
 public:
  /// Claims `folder`, or makes a new one if that is empty: until has_begun() the writer's destructor removes it
  /// again. A run without an identity gets one.
  /// Throws  FileError; also if another process writes there.
  RunWriter(const Plan& plan, const std::string& folder, const nlohmann::ordered_json& settings,
            const Launch& launch, const dist::DistContext& context, const std::string& identity);
  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] std::string identity() const { return settings_.at("run").at("id"); }

  /// Writes config.json.
  /// Returns  why a resumed run must keep the one that it has, until mend() succeeds; empty if it was written.
  /// Throws   FileError for a new run, and if this user may not write.
  std::string write_settings();

  void has_begun();

  /// Creates the folder again if it was removed.
  /// Returns  whether it was.
  /// Throws   FileError.
  bool mend();

  /// trained_model/actor_{name}.pth and critic_{name}.pth
  /// Throws   FileError, also for weights that are not finite.
  void save(learners::Learner& learner, const std::string& name) const;

 private:
  std::unique_ptr<io::NewRun> new_;  // null for a resumed run
  std::string folder_;
  std::optional<io::RunClaim> claim_;
  nlohmann::ordered_json settings_;
  bool settings_written_ = true;
  Plan plan_;
};

}  // namespace snake_ddp::train
