// A learner whose observations go through a frozen token reader first: rows from replay and rollout end with the graphs
// that a snake sees; the inner learner's rows end with tokens.
#pragma once

#include <cstdint>
#include <memory>

#include "snake_ddp/learners/registry.hpp"
#include "snake_ddp/nets/policy.hpp"
#include "snake_ddp/nets/token_reader.hpp"

namespace snake_ddp::learners {

/// `options.features`: those before the graphs and without tokens.
/// Throws  UsageError as make_learner. Bug, from the result's `state`, if the reader's weights changed after
///         `state_changed`.
std::unique_ptr<Learner> make_learner_with_tokens(LearnerOptions options, nets::TokenReader reader);

/// A policy for matches and training: `inner` gets tokens behind `plain` features.
std::unique_ptr<nets::Policy> make_policy_with_tokens(std::unique_ptr<nets::Policy> inner,
                                                      nets::TokenReader reader, std::int64_t plain);

}  // namespace snake_ddp::learners
