// All learners by name: what each can do, its flags, and how to make it.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "learners/flags.hpp"
#include "snake_ddp/core/mirror_image.hpp"

namespace snake_ddp::nets {
class Backend;
}

namespace snake_ddp::learners {

class Learner;

/// What a learner is constructed from. The loop fills it from the settings.
struct LearnerOptions : LearnerFlags {
  std::string algo = "ddpg";
  std::int64_t features = 30;
  const nets::Backend* backend = nullptr;  // of all passes; null: that of the device. For tests
  std::uint64_t seed = 1;                  // of the initial weights; the same on every rank
  at::Device device = at::kCPU;
  core::Mirror mirror = {};  // of features and moves, with `mirror_symmetric`
};

/// The source of the loop's batches.
enum class Feed {
  kReplay,   // transitions drawn from replay
  kWindows,  // windows of a game's consecutive transitions, drawn from replay
  kRollout,  // every few steps, all transitions since the last time, in shuffled parts, several times over; then
             // they are forgotten
};

/// A learner and what it can do, which determines its flags.
struct LearnerEntry {
  std::string name;
  std::unique_ptr<Learner> (*make)(const LearnerOptions&);
  io::Fields (*flags)();  // the groups that it uses
  Feed feed = Feed::kReplay;
  bool actor = false;          // a policy that samples its moves; also learns from scaled features
  bool n_step = false;         // takes rewards of several steps in one transition
  bool device_boards = false;  // learns from boards and replay on its device
  bool cuda_graphs = false;    // its updates may be recorded
  bool low_precision = false;  // its products may be tf32 on GPUs and, if it is no actor, bf16 on CPUs
  bool tokens = false;         // may read tokens behind its features
  bool searches = false;       // a Q-network without memory, with which a team can look ahead
  bool team_value = false;     // learns a team's value, from the sum of its snakes' rewards
  bool lone_critic = false;    // its critic sees one snake, for which what others earn is noise
  io::Values defaults = {};    // of any flags, where they are other than usual
  /// Throws  UsageError for flags that contradict each other.
  void (*check)(const LearnerOptions&) = [](const LearnerOptions&) {};
};
const std::vector<LearnerEntry>& registry();

bool is_learner(const std::string& algo);

/// Throws  UsageError for an unknown name, listing the known ones.
const LearnerEntry& find_learner(const std::string& algo);

/// Throws  UsageError for an unknown options.algo, listing the known ones.
std::unique_ptr<Learner> make_learner(const LearnerOptions& options);

}  // namespace snake_ddp::learners
