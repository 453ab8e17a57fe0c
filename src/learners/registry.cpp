#include <fmt/format.h>

#include <algorithm>

#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::learners {

// Each beside its learner's code.
std::vector<LearnerEntry> ddpg_entries();
std::vector<LearnerEntry> bicnet_entries();
std::vector<LearnerEntry> dqn_entries();
std::vector<LearnerEntry> rqmix_entries();
std::vector<LearnerEntry> pqn_entries();

const std::vector<LearnerEntry>& registry() {
  static const std::vector<LearnerEntry> entries = [] {
    std::vector<LearnerEntry> all;
    for (const auto list : {ddpg_entries, bicnet_entries, dqn_entries, rqmix_entries, pqn_entries})
      for (const LearnerEntry& entry : list()) all.push_back(entry);
    return all;
  }();
  return entries;
}

bool is_learner(const std::string& algo) {
  return std::any_of(registry().begin(), registry().end(),
                     [&](const LearnerEntry& entry) { return entry.name == algo; });
}

const LearnerEntry& find_learner(const std::string& algo) {
  std::string known;
  for (const LearnerEntry& entry : registry()) {
    if (entry.name == algo) return entry;
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  throw core::UsageError(fmt::format("--algo {}: not a known learner; known: {}", algo, known));
}

std::unique_ptr<Learner> make_learner(const LearnerOptions& options) {
  return find_learner(options.algo).make(options);
}

}  // namespace snake_ddp::learners
