// The columns that learners need from replay.
#pragma once

#include <cstdint>
#include <vector>

#include "learners/buffer.hpp"
#include "learners/transition.hpp"
#include "nets/team.hpp"

namespace snake_ddp::learners {

using nets::kTeamSize;
inline constexpr std::int64_t kActions = nets::kMoves;

/// The columns up to `last`.
std::vector<Column> columns_up_to(TransitionColumn last, std::int64_t features);

}  // namespace snake_ddp::learners
