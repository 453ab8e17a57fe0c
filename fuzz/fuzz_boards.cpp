// Images of boards, as in a checkpoint: a board that passes the check can be played to its end. The bytes behind the
// image choose the moves.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "fuzz.hpp"
#include "snake_ddp/agents/opponents.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/encode/observation.hpp"
#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/position.hpp"

using namespace snake_ddp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The reader also checks the bool first.
  if (size < sizeof(game::State) || data[offsetof(game::State, is_done)] != 0) return 0;
  game::State state;
  std::memcpy(&state, data, sizeof state);
  try {
    game::check_consistency(state);
  } catch (const base::Bug&) {
    return 0;
  }
  return fuzz::read_or_refuse([&] {
    game::picture(state);
    std::size_t at = sizeof state;
    for (std::uint32_t move = 0; !state.done(); ++move) {
      float features[game::kTeamSize * 30];
      for (const encode::ObsKind kind : {encode::ObsKind::k26, encode::ObsKind::k30})
        for (const int team : {0, 1}) encode::observe(kind, state, team, features);
      game::Actions actions{};
      for (const char* opponent : {"level1", "level2", "level3", "level4", "evasion"})
        agents::act(*agents::try_opponent(opponent), state, 1, actions, 0, move);
      for (int snake = 0; snake < game::kTeamSize; ++snake)
        actions.of[snake] = static_cast<std::uint8_t>(at < size ? data[at++] & 3 : move & 3U);
      game::PhiloxChance chance(1, 0);
      game::step(state, actions, chance);
      game::check_consistency(state);
    }
  });
}
