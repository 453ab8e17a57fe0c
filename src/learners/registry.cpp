#include <fmt/format.h>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/learners/bicnet.hpp"
#include "snake_ddp/learners/ddpg.hpp"
#include "snake_ddp/learners/dqn.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/learners/pqn.hpp"
#include "snake_ddp/learners/rqmix.hpp"

namespace snake_ddp::learners {

const std::vector<LearnerEntry>& registry() {
  static const std::vector<LearnerEntry> entries = {
      {"ddpg", [](const LearnerOptions& o) -> std::unique_ptr<Learner> { return std::make_unique<Ddpg>(o); }},
      {"bicnet",
       [](const LearnerOptions& o) -> std::unique_ptr<Learner> { return std::make_unique<Bicnet>(o); },
       Bicnet::check},
      {"dqn", [](const LearnerOptions& o) -> std::unique_ptr<Learner> { return std::make_unique<Dqn>(o); },
       Dqn::check},
      {"qmix", [](const LearnerOptions& o) -> std::unique_ptr<Learner> { return std::make_unique<Dqn>(o); },
       Dqn::check},
      {"vdn", [](const LearnerOptions& o) -> std::unique_ptr<Learner> { return std::make_unique<Dqn>(o); },
       Dqn::check},
      {"rqmix",
       [](const LearnerOptions& o) -> std::unique_ptr<Learner> { return std::make_unique<Rqmix>(o); },
       Rqmix::check, Feed::kWindows},
      {"pqn", [](const LearnerOptions& o) -> std::unique_ptr<Learner> { return std::make_unique<Pqn>(o); },
       Dqn::check, Feed::kRollout},
      {"pqn_vdn",
       [](const LearnerOptions& o) -> std::unique_ptr<Learner> { return std::make_unique<Pqn>(o); },
       Dqn::check, Feed::kRollout},
  };
  return entries;
}

const LearnerEntry& find_learner(const std::string& algo) {
  std::string known;
  for (const LearnerEntry& entry : registry()) {
    if (entry.name == algo) return entry;
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  throw base::UsageError(fmt::format("--algo {}: not a known learner; known: {}", algo, known));
}

void check_options(const LearnerOptions& options) { find_learner(options.algo).check(options); }

std::unique_ptr<Learner> make_learner(const LearnerOptions& options) {
  return find_learner(options.algo).make(options);
}

}  // namespace snake_ddp::learners
