// The scripted opponents: each plays the three snakes of either team.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "snake_ddp/core/host_device.hpp"
#include "snake_ddp/core/random.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

enum class Opponent : std::uint8_t { kLevel0, kLevel1, kLevel2, kLevel3, kLevel4, kEvasion, kTerritory };

/// The only list of opponents. Flags, help, error messages and checks read it; `act` has the rules.
struct OpponentEntry {
  Opponent opponent;
  std::string_view name;  // on the command line and in reports
  std::string_view rule;  // one sentence for help and documents
};
inline constexpr std::array kOpponents = {
    OpponentEntry{Opponent::kLevel0, "level0", "uniformly random"},
    OpponentEntry{Opponent::kLevel1, "level1", "the shortest way to the nearest bean, through bodies"},
    OpponentEntry{Opponent::kLevel2, "level2",
                  "to the nearest bean that no teammate has chosen, around bodies"},
    OpponentEntry{Opponent::kLevel3, "level3",
                  "as level4, but through a body where the way around is five cells longer"},
    OpponentEntry{Opponent::kLevel4, "level4",
                  "to the nearest bean, around bodies; teammates may choose the same one"},
    OpponentEntry{Opponent::kEvasion, "evasion",
                  "to the nearest bean, by cells with a free cell behind them"},
    OpponentEntry{Opponent::kTerritory, "territory",
                  "to beans and cells that it reaches before anybody else, around dead ends and heads"},
};
static_assert(
    [] {
      for (std::size_t k = 0; k < kOpponents.size(); ++k)
        if (static_cast<std::size_t>(kOpponents[k].opponent) != k) return false;
      return true;
    }(),
    "kOpponents is in the order of Opponent");

/// Writes the actions of the team's three snakes and leaves the others. Level 0 draws from (seed, stream,
/// state.step()); the other opponents ignore seed and stream.
/// Follows     the reference's rules, ties included. Distances are Euclidean and not on the torus, a move's
///             next cell is on the torus, a cell with a snake is blocked. Without a bean all distances
///             are equal. The territory heuristic is ours: a snake moves towards beans that it reaches
///             first, and away from cells that others reach first and places with less room than its length;
///             distances are steps around bodies, on the torus.
SD_HD inline void act(Opponent opponent, const State& state, int team, Actions& out, std::uint64_t seed,
                      std::uint64_t stream);

/// None for an unknown name.
std::optional<Opponent> try_opponent(std::string_view name);
std::string_view name(Opponent opponent);
/// All names, in the order of the list.
std::vector<std::string> opponent_names();

}  // namespace snake_ddp::game

#include "snake_ddp/game/opponents_inline.hpp"
