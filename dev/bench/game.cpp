#include "benches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string_view>

#include "snake_ddp/core/random.hpp"
#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/opponents.hpp"

namespace snake_ddp::bench {

namespace {

using Clock = std::chrono::steady_clock;
// 256 KiB of boards, in the second-level cache.
constexpr int kBoards = 1024;

/// Keeps a result alive that nobody reads.
void keep(const void* p) { asm volatile("" : : "r"(p) : "memory"); }

/// Calls `round`, which does `per_round` things, for about `seconds`; things per second in the best of 100
/// spans, so that what else runs on the machine counts little. `prepare` is called before each round and not
/// counted: it brings new boards, as a branch predictor learns even a thousand of them by heart.
template <class Round, class Prepare>
double rate(double seconds, double per_round, Round round, Prepare prepare) {
  const auto span = std::chrono::duration<double>(seconds / 100);
  double best = 0;
  for (int k = 0; k < 100; ++k) {
    double n = 0;
    std::chrono::duration<double> took{};
    for (const auto end = Clock::now() + span; Clock::now() < end;) {
      prepare();
      const auto start = Clock::now();
      round();
      took += Clock::now() - start;
      n += per_round;
    }
    best = std::max(best, n / took.count());
  }
  return best;
}

template <class Round>
double rate(double seconds, double per_round, Round round) {
  return rate(seconds, per_round, round, [] {});
}

// The argument of Batch::step where only the boards matter.
void as_drawn(const game::State&, game::Actions&, std::uint64_t) {}
void unseen(int) {}

/// A word of random moves for six snakes, two bits each; cheap, so that the game is what is measured.
class Moves {
 public:
  game::Actions next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    game::Actions actions;
    for (int i = 0; i < game::kSnakes; ++i)
      actions.of[i] = static_cast<std::uint8_t>(state_ >> (40 + 2 * i) & 3U);
    return actions;
  }

 private:
  std::uint64_t state_ = 1;
};

struct Batch {
  std::vector<game::State> states = std::vector<game::State>(kBoards);
  std::vector<std::uint64_t> streams = std::vector<std::uint64_t>(kBoards);
  std::uint64_t games = 0;
  Moves moves;

  Batch() {
    for (int b = 0; b < kBoards; ++b) deal(b);
    for (int t = 0; t < 100; ++t) step(as_drawn, unseen);
  }
  void deal(int b) {
    streams[b] = games++;
    game::PhiloxChance chance(1, streams[b]);
    game::reset(states[b], chance);
  }
  /// One step of every board with random moves, changed by `choose`; `see` is called after each.
  template <class Choose, class See>
  void step(Choose choose, See see) {
    for (int b = 0; b < kBoards; ++b) {
      game::State& s = states[b];
      game::Actions actions = moves.next();
      choose(s, actions, streams[b]);
      game::PhiloxChance chance(1, streams[b]);
      if (game::step(s, actions, chance).done) [[unlikely]]
        deal(b);
      see(b);
    }
  }
};

Row row(std::string name, double value, std::string unit, double limit) {
  return {std::move(name), value, std::move(unit), limit, value / limit};
}

/// What a second's copying of whole boards within the first-level cache comes to: nothing that reads a board
/// and writes it again is faster.
double copies_per_s(double seconds) {
  std::vector<game::State> from(kBoards), to(kBoards);
  return rate(seconds, kBoards, [&] {
    std::memcpy(to.data(), from.data(), kBoards * sizeof(game::State));
    keep(to.data());
    std::swap(from, to);
  });
}

/// One random block a board: the least that a step with reversals has to draw.
double blocks_per_s(double seconds) {
  std::uint64_t stream = 0;
  std::uint32_t all = 0;
  const double result = rate(seconds, kBoards, [&] {
    for (int b = 0; b < kBoards; ++b) all ^= core::random_block(1, stream++, 1, core::Purpose::kTest).word[0];
  });
  keep(&all);
  return result;
}

}  // namespace

std::vector<Row> measure_game(double seconds) {
  const double part = seconds / 4;
  // A step must draw a block and read and write its board: the sum of both times is the bound.
  const double limit = 1 / (1 / blocks_per_s(part) + 1 / copies_per_s(part));
  Batch batch;
  const double steps = rate(part, kBoards, [&] { batch.step(as_drawn, unseen); });
  Batch skilled;  // no reversals and more beans, as trained teams play
  const double level4 = rate(part, kBoards, [&] {
    skilled.step(
        [](const game::State& s, game::Actions& actions, std::uint64_t stream) {
          for (int team = 0; team < 2; ++team)
            game::act(game::Opponent::kLevel4, s, team, actions, 1, stream);
        },
        unseen);
  });
  return {row("game_step_random", steps, "steps/s", limit),
          row("game_step_with_level4_teams", level4, "steps/s", limit)};
}

std::vector<Row> measure_encode(double seconds) {
  const double part = seconds / (1 + 2 * std::size(game::kObsKindNames));
  std::vector<Row> rows;
  const double copies = copies_per_s(part);
  for (const std::string_view name : game::kObsKindNames) {
    const game::ObsKind kind = game::try_obs_kind(name).value();
    const auto size = game::kTeamSize * static_cast<std::size_t>(game::obs_size(kind));
    std::vector<float> out(kBoards * size);
    // The bound: writing as many floats, which stay in the cache, and nothing else.
    const double writes = rate(part / 2, kBoards, [&] {
      std::memset(out.data(), 0, out.size() * sizeof(float));
      keep(out.data());
    });
    Batch batch;
    const double seen = rate(
        part / 2, kBoards,
        [&] {
          for (int b = 0; b < kBoards; ++b) game::observe(kind, batch.states[b], 0, out.data() + b * size);
          keep(out.data());
        },
        [&] { batch.step(as_drawn, unseen); });
    rows.push_back(row(fmt::format("observe_{}", name), seen, "boards/s", writes));
    const double both = rate(part, kBoards, [&] {
      batch.step(as_drawn, [&](int b) { game::observe(kind, batch.states[b], 0, out.data() + b * size); });
      keep(out.data());
    });
    const double limit = 1 / (1 / writes + 1 / copies);
    rows.push_back(row(fmt::format("game_step_and_observe_{}", name), both, "steps/s", limit));
  }
  return rows;
}

std::vector<Row> measure_opponents(double seconds) {
  const double part = seconds / 7;
  std::vector<Row> rows;
  // The bound: reading the board once.
  std::vector<game::State> states(kBoards);
  const double reads = rate(part, kBoards, [&] {
    std::uint64_t all = 0;
    for (const game::State& s : states) {
      std::uint64_t words[sizeof(game::State) / 8];
      std::memcpy(words, &s, sizeof words);
      for (const std::uint64_t word : words) all ^= word;
    }
    keep(&all);
  });
  for (const game::OpponentEntry& entry : game::kOpponents) {
    Batch batch;
    game::Actions actions{};
    const double acts = rate(
        part, kBoards,
        [&] {
          for (int b = 0; b < kBoards; ++b) {
            game::act(entry.opponent, batch.states[b], 1, actions, 1, batch.streams[b]);
            keep(&actions);
          }
        },
        [&] { batch.step(as_drawn, unseen); });
    rows.push_back(row(fmt::format("opponent_{}_ns", entry.name), 1e9 / acts, "ns/board", 1e9 / reads));
    rows.back().ratio = rows.back().limit / rows.back().value;
  }
  return rows;
}

}  // namespace snake_ddp::bench
