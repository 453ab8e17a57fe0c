#include <fmt/format.h>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/learners/bicnet.hpp"
#include "snake_ddp/learners/ddpg.hpp"
#include "snake_ddp/learners/learner.hpp"

namespace snake_ddp::learners {

const std::vector<LearnerEntry>& registry() {
  static const std::vector<LearnerEntry> entries = {
      {"ddpg", [](const LearnerOptions& o) -> std::unique_ptr<Learner> { return std::make_unique<Ddpg>(o); }},
      {"bicnet",
       [](const LearnerOptions& o) -> std::unique_ptr<Learner> { return std::make_unique<Bicnet>(o); }},
  };
  return entries;
}

std::unique_ptr<Learner> make_learner(const LearnerOptions& options) {
  std::string known;
  for (const LearnerEntry& entry : registry()) {
    if (entry.name == options.algo) return entry.make(options);
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  throw base::UsageError(fmt::format("--algo {}: this version has: {}", options.algo, known));
}

}  // namespace snake_ddp::learners
