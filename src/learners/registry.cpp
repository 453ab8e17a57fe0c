#include <fmt/format.h>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/learners/bicnet.hpp"
#include "snake_ddp/learners/ddpg.hpp"
#include "snake_ddp/learners/learner.hpp"

namespace snake_ddp::learners {

// Each in the file of its learner.
std::unique_ptr<Learner> make_dqn(const LearnerOptions& options);
std::unique_ptr<Learner> make_pqn(const LearnerOptions& options);
std::unique_ptr<Learner> make_rqmix(const LearnerOptions& options);
void check_q_learner(const LearnerOptions& options);
void check_rqmix(const LearnerOptions& options);

const std::vector<LearnerEntry>& registry() {
  static const std::vector<LearnerEntry> entries = {
      {"ddpg", [](const LearnerOptions& o) -> std::unique_ptr<Learner> { return std::make_unique<Ddpg>(o); }},
      {"bicnet",
       [](const LearnerOptions& o) -> std::unique_ptr<Learner> { return std::make_unique<Bicnet>(o); },
       Bicnet::check},
      {"dqn", make_dqn, check_q_learner},
      {"qmix", make_dqn, check_q_learner},
      {"vdn", make_dqn, check_q_learner},
      {"rqmix", make_rqmix, check_rqmix, Feed::kWindows},
      {"pqn", make_pqn, check_q_learner, Feed::kRollout},
      {"pqn_vdn", make_pqn, check_q_learner, Feed::kRollout},
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
