// What rank 0 keeps of a run beside its checkpoints: the folder, its settings, weights.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/io/run_folder.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/train/options.hpp"
#include "snake_ddp/train/resume.hpp"
#include "weights.hpp"

namespace snake_ddp::train {

class Keeper {
 public:
  /// In `folder`, or in a new one where that is empty. Writes config.json.
  /// Throws  FileError; also if another process writes there.
  Keeper(const TrainOptions& options, const std::string& folder, const nlohmann::ordered_json& settings,
         const Launch& launch, const dist::DistContext& context);
  [[nodiscard]] const std::string& folder() const { return folder_; }

  /// Makes the folder anew if somebody removed it.
  /// Returns  whether that was so.
  /// Throws   FileError.
  bool mend();

  /// trained_model/actor_{name}.pth and critic_{name}.pth
  void save(learners::Learner& learner, const std::string& name) const;

 private:
  std::string folder_;
  std::optional<io::RunClaim> claim_;
  nlohmann::ordered_json settings_;
  FeatureMap map_;
};

}  // namespace snake_ddp::train
