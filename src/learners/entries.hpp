// Helpers for a learner's entry in the registry.
#pragma once

#include <memory>
#include <tuple>

#include "learners/registry.hpp"

namespace snake_ddp::learners {

/// LearnerEntry::make and LearnerEntry::flags.
template <class L>
std::unique_ptr<Learner> make(const LearnerOptions& options) {
  return std::make_unique<L>(options);
}
template <class... Flags>
io::Fields flags_of() {
  static std::tuple<Flags...> defaults;
  return std::apply([](Flags&... flags) { return io::joined({flags.fields()...}); }, defaults);
}

}  // namespace snake_ddp::learners
