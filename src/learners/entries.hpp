// The learners' entries in the registry, each beside its learner's code.
#pragma once

#include <tuple>
#include <vector>

#include "snake_ddp/learners/learner.hpp"

namespace snake_ddp::learners {

std::vector<LearnerEntry> ddpg_entries();
std::vector<LearnerEntry> bicnet_entries();
std::vector<LearnerEntry> dqn_entries();
std::vector<LearnerEntry> rqmix_entries();
std::vector<LearnerEntry> pqn_entries();

/// LearnerEntry::make and LearnerEntry::flags.
template <class L>
std::unique_ptr<Learner> make(const LearnerOptions& options) {
  return std::make_unique<L>(options);
}
template <class... Flags>
config::Fields flags_of() {
  static std::tuple<Flags...> defaults;
  return std::apply([](Flags&... flags) { return config::joined({flags.fields()...}); }, defaults);
}

}  // namespace snake_ddp::learners
