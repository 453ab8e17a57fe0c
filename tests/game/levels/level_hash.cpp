// One program for each instruction set: every form of cell sets, and code for every vector width, must give the same boards,
// features and moves. Prints their hash.
#include <cstdio>
#include <vector>

#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/game/position.hpp"

using namespace snake_ddp;

namespace {

class Hash {
 public:
  void add(const void* bytes, std::size_t size) {
    const auto* at = static_cast<const unsigned char*>(bytes);
    for (std::size_t k = 0; k < size; ++k) value_ = (value_ ^ at[k]) * 0x100000001b3ULL;
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

constexpr std::uint64_t kGames = 12;
// Opponents that are appended later do not change the hash.
constexpr std::uint64_t kOthers = static_cast<std::uint64_t>(game::Opponent::kTerritory) + 1;

// Games between the territory heuristic and the scripted opponents, on both sides.
std::uint64_t hash_of_games() {
  Hash hash;
  for (std::uint64_t g = 0; g < kGames; ++g) {
    const auto other = static_cast<game::Opponent>(g % kOthers);
    const int side = static_cast<int>(g % 2);
    game::State s;
    game::PhiloxChance start(41, g);
    game::reset(s, start);
    while (!s.done()) {
      game::Actions actions{};
      game::act(game::Opponent::kTerritory, s, side, actions, 41, g);
      game::act(other, s, 1 - side, actions, 41, g);
      game::PhiloxChance chance(41, g);
      game::step(s, actions, chance);
      const std::uint64_t board = game::hash(s);
      hash.add(&board, sizeof board);
      for (const auto kind : {game::ObsKind::k26, game::ObsKind::k30, game::ObsKind::kView}) {
        float out[game::kTeamSize * game::kMaxObsSize];
        game::observe(kind, s, side, out);
        hash.add(out, sizeof(float) * game::kTeamSize * static_cast<std::size_t>(game::obs_size(kind)));
      }
    }
  }
  return hash.value();
}

// The same everywhere; it changes only with the rules, the features or the heuristic.
constexpr std::uint64_t kExpected = 0x7abe2bef0e0f1b2e;

}  // namespace

int main() {
#ifdef SD_NEEDS_AVX2
  if (!__builtin_cpu_supports("avx2")) return 77;  // skipped
#endif
  const std::uint64_t hash = hash_of_games();
  std::printf("%016llx, expected %016llx\n", static_cast<unsigned long long>(hash),
              static_cast<unsigned long long>(kExpected));
  return hash == kExpected ? 0 : 1;
}
