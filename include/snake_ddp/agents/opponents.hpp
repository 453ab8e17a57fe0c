// The scripted opponents: each plays the three snakes of either team.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "snake_ddp/base/host_device.hpp"
#include "snake_ddp/base/random.hpp"
#include "snake_ddp/game/game.hpp"

namespace snake_ddp::agents {

enum class Opponent : std::uint8_t { kLevel0, kLevel1, kLevel2, kLevel3, kLevel4, kEvasion, kTerritory };
inline constexpr Opponent kLastOpponent = Opponent::kTerritory;

/// Writes the actions of the team's three snakes, the others stay. Level 0 draws from (seed, stream,
/// state.step()); the others do not look at seed and stream.
/// Follows     the reference's rules, ties included. Distances are Euclidean and not on the torus, a move's
///             next cell is on the torus, a cell is blocked where a snake is. Without a bean all distances
///             are equal. Territory is ours: toward beans that it reaches before anybody else, away from cells that others
///             reach first and from places with less room than it is long; distances are steps around bodies, on the torus.
SD_HD inline void act(Opponent opponent, const game::State& state, int team, game::Actions& out,
                      std::uint64_t seed, std::uint64_t stream);

/// "level0".."level4", "evasion", "territory".
std::optional<Opponent> try_opponent(std::string_view name);
std::string_view name(Opponent opponent);

}  // namespace snake_ddp::agents

#include "snake_ddp/agents/opponents_inline.hpp"
