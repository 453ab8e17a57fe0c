// Helpers for a learner's entry in the registry.
#pragma once

#include <memory>
#include <tuple>

#include "snake_ddp/learners/registry.hpp"

namespace snake_ddp::learners {

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
