// Functors count boards, rows and parameters with 64 bits: what they do at index 5 of small arrays they do at index
// 2^32 + 5 of huge ones, of which nothing exists but the pages that they touch.
#include <sys/mman.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "snake_ddp/core/each.hpp"
#include "work_arrays.hpp"

namespace {

using namespace snake_ddp;

// TiB of address space, which sanitizers have no shadow for.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

constexpr std::int64_t kFar = std::int64_t{1} << 32;
constexpr std::int64_t kBoard = 5, kCapacity = 4096;

class Sparse {
 public:
  struct Array {
    const char* name;
    std::uint8_t* begin;
    std::size_t bytes;
  };

  Sparse() = default;
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;
  ~Sparse() {
    for (const Array& a : arrays) ::munmap(a.begin, a.bytes);
  }

  template <class T>
  T* take(const char* name, std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    void* const at =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) FAIL("no address space of " << bytes << " bytes: " << std::strerror(errno));
    arrays.push_back({name, static_cast<std::uint8_t*>(at), bytes});
    return static_cast<T*>(at);
  }

  std::vector<Array> arrays;
};

// The end of each huge array is what the small one is, and its beginning is untouched.
void check_same(const Sparse& near, const Sparse& far) {
  for (std::size_t k = 0; k < near.arrays.size(); ++k) {
    const Sparse::Array &small = near.arrays[k], &huge = far.arrays[k];
    CAPTURE(small.name);
    const std::size_t before = huge.bytes - small.bytes;
    CHECK(std::memcmp(huge.begin + before, small.begin, small.bytes) == 0);
    if (before > 0)
      CHECK(std::count(huge.begin, huge.begin + small.bytes, 0) == static_cast<std::ptrdiff_t>(small.bytes));
  }
}

// One index alone.
template <class Work>
void at_place(std::int64_t i, const Work& work) {
  if constexpr (requires { Work::kLanes; }) {
    typename Work::Shared shared;
    for (int phase = 0; phase < Work::kPhases; ++phase)
      for (int lane = 0; lane < Work::kLanes; ++lane) work(phase, i, lane, shared);
  } else {
    work(i);
  }
}

struct Place {
  Games games;
  std::int64_t board;
};

template <class Look>
void observe_at(const Place& p, std::int64_t i, const Look& look) {
  const rollout::Seen& seen = look(p.games);
  if (game::is_view(seen.obs_spec.kind)) return at_place(i, rollout::SeeView{seen});
  at_place(i, rollout::SeePlain{seen});
}

// The last board alone plays two games and a half; its rows of replay follow those of the boards before it.
void play_alone(Place& p, game::Opponent opponent) {
  rollout::BoardArrays& f = p.games.f;
  const std::int64_t b = p.board, before = b - kBoard;
  f.running[b * play::kFields + play::kOpponent] = static_cast<std::int64_t>(opponent);
  rollout::start_game(f, b, 1);
  *f.started = 1;
  *f.ended = before;
  *f.epsilon = 0.5;
  filled(f.place)[b] = 0.9;
  filled(f.place)[b + 1] = 0.99;
  f.counter[learners::kNext] = before;
  for (std::int64_t k = 0; k < play::kActionFloats; ++k)
    filled(f.values)[b * play::kActionFloats + k] = static_cast<float>(k * 7 % 12) / 12;
  for (int t = 0; t < 500; ++t) {
    at_place(b, rollout::TerritoryMoves{f});
    at_place(b, rollout::PlayBoard{f});
    filled(f.sums)[b] = f.counts[b];
    if (f.best) {
      at_place(b, rollout::SettleBoard<true>{f});
    } else {
      at_place(b, rollout::SettleBoard<false>{f});
    }
    at_place(0, rollout::CountStep{f});
  }
  observe_at(p, b, [](const Games& g) { return g.seen; });
  if (f.best) {  // a row that was stored, by its place
    p.games.draw.index[b] = before + 123;
    observe_at(p, b, [](const Games& g) { return g.drawn; });
  }
}

}  // namespace

TEST_CASE("boards and rows beyond 2^32 are played, stored and seen as those before", "[unit]") {
  // As many boards as opponents, each with another one.
  for (const auto kind : {game::ObsKind::k30, game::ObsKind::kView, game::ObsKind::kAhead}) {
    for (const char* opponent : {"level2", "evasion", "territory"}) {
      CAPTURE(static_cast<int>(kind), opponent);
      const play::ObsSpec obs_spec{kind};
      Sparse near, far;
      Place here{lay_out_games(near, obs_spec, kBoard + 1, kCapacity), kBoard},
          there{lay_out_games(far, obs_spec, kFar + kBoard + 1, kFar + kCapacity), kFar + kBoard};
      for (Place* p : {&here, &there}) play_alone(*p, game::try_opponent(opponent).value());
      // Numbers of games and rows grow by those before.
      rollout::BoardArrays& f = there.games.f;
      REQUIRE(*here.games.f.ended == 2);
      REQUIRE(here.games.f.counter[learners::kNext] > 300);
      for (std::int64_t game = 0; game < 2; ++game)
        f.records[(kFar + game) * rollout::kEndedFields + rollout::kEndedNumber] -= kFar;
      *f.ended -= kFar;
      f.counter[learners::kNext] -= kFar;
      if (f.best) there.games.draw.index[kFar + kBoard] -= kFar;
      check_same(near, far);
    }
  }
}

TEST_CASE("random boards beyond 2^32 step as those before", "[unit]") {
  Sparse near, far;
  for (const auto& [memory, first] : {std::pair(&near, std::int64_t{0}), std::pair(&far, kFar)}) {
    auto* const boards = memory->take<game::State>("boards", first + kBoard + 1);
    auto* const games = memory->take<std::uint32_t>("games", first + kBoard + 1);
    game::PhiloxChance chance(1, 1);
    game::reset(boards[first + kBoard], chance);
    for (int t = 0; t < 300; ++t) at_place(first + kBoard, rollout::RandomBoard{boards, games, 3});
  }
  check_same(near, far);
}

TEST_CASE("a batch's rows beyond 2^31 are drawn, and its places beyond 2^32 have words of their own",
          "[unit]") {
  Sparse far;
  auto* const index = far.take<std::int64_t>("index", kFar + 8);
  const std::int64_t draw = 3, size = kFar - 1;
  const learners::DrawRows work{7, &draw, &size, index};
  std::int64_t greatest = 0;
  for (std::int64_t i = kFar; i < kFar + 8; ++i) {
    at_place(i, work);
    const core::RandomBlock block =
        core::random_block(7, 3, (1U << 30) + (i >= kFar + 4), core::Purpose::kSample);
    CHECK(index[i] == static_cast<std::int64_t>((std::uint64_t{block.word[i % 4]} * (kFar - 1)) >> 32));
    greatest = std::max(greatest, index[i]);
  }
  CHECK(greatest > kFar / 2);
  CHECK(std::count(index, index + 8, 0) == 8);
}

TEST_CASE("parameters beyond 2^32 take the step of those before", "[unit]") {
  Sparse near, far;
  for (const auto& [memory, first] : {std::pair(&near, std::int64_t{0}), std::pair(&far, kFar)}) {
    const Adam adam = lay_out_adam(*memory, first + kBoard + 1);
    *adam.scales = {1.0F, 0.01F, 2.0F};
    filled(adam.step.gradient)[first + kBoard] = 0.3F;
    adam.step.parameter[first + kBoard] = 1.0F;
    adam.step.target[first + kBoard] = 0.5F;
    at_place(first + kBoard, adam.step);
    CHECK(adam.step.parameter[first + kBoard] < 1.0F);
  }
  check_same(near, far);
}

#else
}  // namespace
#endif
