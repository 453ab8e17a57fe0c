// The numbers of the game that networks are built for.
#pragma once

#include <cstdint>

namespace snake_ddp::nets {

inline constexpr std::int64_t kTeamSize = 3;  // snakes of a team
inline constexpr std::int64_t kMoves = 4;     // outputs of an actor or a Q-network

}  // namespace snake_ddp::nets
