// A learner whose observations go through a frozen token reader first: rows from replay and rollout end with a board; the
// inner learner's rows end with tokens of what a snake sees of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "learners/registry.hpp"
#include "nets/policy.hpp"
#include "nets/token_reader.hpp"

namespace snake_ddp::learners {

/// Makes tokens of boards.
struct TokenSource {
  nets::TokenReader reader;
  std::int64_t board_floats;  // of a board behind the features
  /// What the reader reads. Shapes  boards [N, board_floats], a tensor of their own, on the reader's device; returns [N, 3,
  /// reader.graph_floats()].
  std::function<at::Tensor(const at::Tensor& boards)> graphs;
};

/// `options.features`: those before the board and without tokens. On the CPU the learner keeps the tokens of the last
/// `boards` boards that its policy or its updates read, and does not read these again until the reader changes.
/// Units   a kept board takes 4 (board_floats + 3 reader.features()) bytes.
/// Throws  UsageError as make_learner, or if there is not enough memory. Bug, from the result's `state`, if the reader's
///         weights changed after `state_changed`.
std::unique_ptr<Learner> make_learner_with_tokens(LearnerOptions options, TokenSource source,
                                                  std::int64_t boards);

/// A policy for matches: `inner` gets tokens behind `plain` features.
std::unique_ptr<nets::Policy> make_policy_with_tokens(std::unique_ptr<nets::Policy> inner, TokenSource source,
                                                      std::int64_t plain);

}  // namespace snake_ddp::learners
