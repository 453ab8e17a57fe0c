// Images of boards: one as in a checkpoint, which can be played to its end if it passes the check, with moves that the bytes
// behind it choose; or a set of boards, with its checksum corrected, so that boards and ends of games are reached.
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "pretrain/board_set.hpp"
#include "pretrain/loader.hpp"
#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/position.hpp"

using namespace snake_ddp;

namespace {

constexpr std::string_view kSetBegin = "SDBOARDS";
constexpr std::size_t kFootBytes = 24, kChecksumBytes = 8;  // from the end

int read_set(std::string bytes) {
  if (bytes.size() >= kFootBytes) {
    const auto content = static_cast<uInt>(bytes.size() - kFootBytes);
    const auto checksum =
        static_cast<std::uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), content));
    std::memcpy(bytes.data() + bytes.size() - kChecksumBytes, &checksum, sizeof checksum);
  }
  const fuzz::MemoryFile file(bytes);
  return fuzz::read_or_refuse([&] {
    const pretrain::BoardSet set(file.path());
    std::int64_t boards = 0;
    for (std::int64_t g = 0; g < set.games(); ++g)
      for (const game::State& board : set.game(g)) boards += game::picture(board).empty() ? 0 : 1;
    if (boards != set.boards()) __builtin_trap();
    std::vector<std::int64_t> rows(static_cast<std::size_t>(boards));
    std::iota(rows.begin(), rows.end(), 0);
    pretrain::SampleOptions sample;
    sample.view_radius = 4;
    pretrain::make_batch(set, rows, sample, false);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with(kSetBegin)) return read_set(std::string(text));
  if (size < sizeof(game::State) || !game::fault_of_image(data).empty()) return 0;
  game::State state;
  std::memcpy(&state, data, sizeof state);
  return fuzz::read_or_refuse([&] {
    game::picture(state);
    std::size_t at = sizeof state;
    for (std::uint32_t move = 0; !state.done(); ++move) {
      float features[game::kTeamSize * 30];
      for (const game::ObsKind kind : {game::ObsKind::k26, game::ObsKind::k30})
        for (const int team : {0, 1}) game::observe(kind, state, team, features);
      game::Actions actions{};
      for (const char* opponent : {"level1", "level2", "level3", "level4", "evasion"})
        game::act(*game::try_opponent(opponent), state, 1, actions, 0, move);
      for (int snake = 0; snake < game::kTeamSize; ++snake)
        actions.of[snake] = static_cast<std::uint8_t>(at < size ? data[at++] & 3 : move & 3U);
      game::PhiloxChance chance(1, 0);
      game::step(state, actions, chance);
      game::check_consistency(state);
    }
  });
}
