// Opponents of --opponent_mix that play from files, which do not change.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nets/policy.hpp"
#include "snake_ddp/game/mix.hpp"
#include "train/plan.hpp"

namespace snake_ddp::train {

/// They act by the collector's rules for frozen teams: a Q-network makes its best open move, as in `eval`; an actor's moves
/// are drawn, with --mask_fatal from open ones.
class FileTeams {
 public:
  struct Team {
    game::Rival rival;  // as in the mix
    std::string path;
    nets::NamedTensors weights;
    std::unique_ptr<nets::Policy> policy;
    std::uint64_t hash = 0;
  };

  FileTeams() = default;  // none
  /// Reads the files that the mix names. `device`: that of the boards.
  /// Throws  FileError for a file that cannot be used; UsageError, on every device, for tokens, another view than the run's, a
  ///         network with memory, and a Q-network without --mask_fatal: they would play otherwise here than in `eval`.
  explicit FileTeams(const Plan& plan, at::Device device = at::kCPU);

  [[nodiscard]] const std::vector<Team>& teams() const { return teams_; }
  /// Remarks for the user about the files.
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }

  /// The team at an index of game::Rival, null if it is none of these. Owner: this.
  [[nodiscard]] nets::Policy* frozen(int place) const;

  /// A hash of each file's weights, under its path: for checkpoints, and for comparing ranks.
  [[nodiscard]] nets::NamedTensors state() const;
  [[nodiscard]] std::string text() const;
  /// Files that a checkpoint does not know may have any weights.
  /// Throws  FileError if one is no longer what it was.
  void check(const nets::NamedTensors& state) const;

 private:
  std::vector<Team> teams_;
  std::vector<std::string> remarks_;
};

}  // namespace snake_ddp::train
