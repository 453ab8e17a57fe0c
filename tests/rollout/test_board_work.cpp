// Devices play the same games as main memory. These tests run the devices' functors in a loop on the host, and, if there is
// a device, on it too.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "../host_loops.hpp"
#include "../witness.hpp"
#include "learners/columns.hpp"
#include "nets/device_work.hpp"
#include "rollout/collector.hpp"
#include "rollout/random_boards.hpp"
#include "show_boards.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/curriculum.hpp"
#include "snake_ddp/game/position.hpp"

namespace {

using namespace snake_ddp;

// Its outputs depend on its observations, so that a wrong observation leads to other games.
class Reflex final : public nets::Policy {
 public:
  explicit Reflex(game::ObsKind kind, Answer answer) : answer_(answer) {
    const std::int64_t in = game::obs_size(kind) + 1;
    weight_ = at::arange(in * 4, at::kFloat).mul_(0.7).sin_().view({in, 4});
  }
  [[nodiscard]] Answer answer() const override { return answer_; }
  const at::Tensor& action_values(const at::Tensor& observations) override {
    // Both call it with equally many boards, so the product's bits are the same.
    out_ = at::matmul(observations.to(at::kCPU), weight_).softmax(-1);
    return out_;
  }

 private:
  Answer answer_;
  at::Tensor weight_, out_;
};

constexpr auto kWeights = nets::Policy::Answer::kWeights;
constexpr auto kValues = nets::Policy::Answer::kValues;

struct Case {
  const char* what;
  game::ObsKind kind;
  nets::Policy::Answer answer;
  std::int64_t boards, steps, n_step, episode_length, capacity;
  double epsilon_min;
  bool mask_fatal;
  const char* mix;  // empty: the curriculum
};

// Each opponent of the mix on boards of its own; files are frozen teams.
std::vector<game::Rival> rivals_of(const char* text, std::int64_t boards) {
  game::Mix mix = game::parse_mix(text);
  mix.resize(std::min(mix.size(), static_cast<std::size_t>(boards)));
  std::vector<game::Rival> rivals;
  if (mix.empty()) return rivals;
  const std::vector<std::int64_t> counts = game::boards_of(mix, boards);
  for (std::size_t k = 0; k < mix.size(); ++k)
    rivals.insert(rivals.end(), static_cast<std::size_t>(counts[k]), mix[k].rival);
  return rivals;
}

rollout::CollectorOptions options_of(const Case& c, Reflex& frozen) {
  rollout::CollectorOptions o;
  o.num_envs = c.boards;
  o.obs_spec.kind = c.kind;
  o.n_step = c.n_step;
  o.episode_length = c.episode_length;
  o.epsilon_min = c.epsilon_min;
  o.epsilon_speed = 0.99999;
  o.mask_fatal = c.mask_fatal;
  o.own_reward = 0.7;
  o.rival_reward = 0.3;
  o.seed = 77;
  o.rivals = rivals_of(c.mix, c.boards);
  o.frozen = [&frozen](int) { return &frozen; };
  o.schedule = game::plan_of_schedule(
      [](std::int64_t game) { return game::opponent_at({}, game, 700, true, 600); }, 700);
  return o;
}

void compare_states(const nets::NamedTensors& ours, const nets::NamedTensors& theirs) {
  REQUIRE(ours.size() == theirs.size());
  for (std::size_t k = 0; k < theirs.size(); ++k) {
    CAPTURE(theirs[k].first);
    const bool floats = theirs[k].second.scalar_type() == at::kFloat;  // boards: bits, which may be NaN
    CHECK(at::equal(floats ? ours[k].second.view(at::kInt) : ours[k].second,
                    floats ? theirs[k].second.view(at::kInt) : theirs[k].second));
  }
}

void compare_episodes(const std::vector<rollout::Episode>& reported,
                      const std::vector<rollout::Episode>& expected) {
  REQUIRE(reported.size() == expected.size());
  for (std::size_t k = 0; k < reported.size(); ++k) {
    const rollout::Episode &a = reported[k], &b = expected[k];
    CHECK(std::tie(a.number, a.started, a.steps, a.epsilon) ==
          std::tie(b.number, b.started, b.steps, b.epsilon));
    CHECK(a.opponent == b.opponent);
    CHECK(std::equal(std::begin(a.snake_return), std::end(a.snake_return), b.snake_return));
    CHECK(std::equal(std::begin(a.team_return), std::end(a.team_return), b.team_return));
  }
}

// One plays as in main memory, the other as a device does, or on one; then their complete states are compared.
void compare(const Case& c, at::Device device, const core::HostLoop& way = in_blocks_of(64)) {
  CAPTURE(c.what);
  Reflex policy(c.kind, c.answer), frozen(c.kind, kWeights);
  const rollout::CollectorOptions options = options_of(c, frozen);
  const auto columns = rollout::with_boards(
      learners::columns_up_to(learners::kNextMoves, options.obs_spec.features()), options.obs_spec);
  learners::Buffer buffer(columns, c.capacity), there(columns, c.capacity, device);
  rollout::Collector collector(options, buffer), other(options, there, nullptr, 20);
  std::vector<rollout::Episode> expected, reported;
  const auto play = [&](rollout::Collector& of_device, std::int64_t steps) {
    for (std::int64_t t = 0; t < steps; ++t) {
      collector.step(policy, expected);
      const HostGoes goes(way);
      of_device.step(policy);
      if (t % 20 == 19) of_device.fetch(reported);
    }
    of_device.fetch(reported);
    CHECK(of_device.hash() == collector.hash());
    compare_states(of_device.state(), collector.state());
    CHECK(there.size() == buffer.size());
    CHECK(there.appended() == buffer.appended());
    CHECK(there.next_slot() == buffer.next_slot());
    for (std::size_t k = 0; k < columns.size(); ++k) {
      CAPTURE(columns[k].name);
      const auto rows = [&](const learners::Buffer& of) {
        return of.column(k).narrow(0, 0, buffer.size()).to(at::kCPU).contiguous().view(at::kInt);
      };
      CHECK(at::equal(rows(there), rows(buffer)));
    }
  };
  play(other, c.steps);
  compare_episodes(reported, expected);
  REQUIRE(static_cast<std::int64_t>(reported.size()) >= c.boards);

  learners::Batch batch, device_batch;
  for (int draw = 0; draw < 3; ++draw) {
    buffer.sample(37, 5, batch);
    const HostGoes goes(way);
    there.sample(37, 5, device_batch);
    for (std::size_t k = 0; k < columns.size(); ++k)
      CHECK(at::equal(device_batch.columns[k].to(at::kCPU), batch.columns[k]));
  }

  // Taken over in the middle of games, it continues as the first one does.
  rollout::Collector second(options, there, nullptr, 20);
  REQUIRE(second.restore(collector.state(), "state"));
  play(second, 30);
}

constexpr Case kCases[] = {
    {"65 boards, 4,096 steps, the curriculum", game::ObsKind::k30, kWeights, 65, 4096, 1, 200, 3001, 0.0,
     false, ""},
    {"windows of five steps, ladder, mask, mix", game::ObsKind::k26, kWeights, 33, 700, 5, 200, 1000, 0.05,
     true, "level2:0.7,evasion:0.1,territory:0.2"},
    {"values, boards in replay, games cut off", game::ObsKind::kView, kValues, 7, 120, 3, 17, 200, 0.0, true,
     "level1,level3,level4"},
    {"against itself, a frozen team and scripts", game::ObsKind::kAhead, kValues, 13, 260, 3, 60, 900, 0.0,
     true, "territory:0.3,self:0.4,file:a:0.2,level1:0.1"},
    {"weights, against itself with 30 features", game::ObsKind::k30, kWeights, 8, 150, 2, 60, 900, 0.0, false,
     "self:0.6,level2:0.2,file:a:0.2"},
    {"one board, its rows as many as replay has room for", game::ObsKind::kWindow, kWeights, 1, 450, 4, 200,
     4, 0.1, false, "level0"},
};

// What many boards hold after three steps. Games end at the second one.
struct Held {
  nets::NamedTensors state;
  std::vector<at::Tensor> rows;
  std::size_t ended;
};

constexpr Case kFeatures = {"30 features", game::ObsKind::k30, kWeights, 0, 3, 2, 2, 0, 0.0, true, "level2"};
constexpr Case kView = {"the view, territory", game::ObsKind::kView, kValues, 0, 3, 1, 2, 0, 0.0, false,
                        "level2,territory"};

Held held_after(Case c, std::int64_t boards, at::Device device) {
  c.boards = boards;
  c.capacity = boards * c.n_step;
  Reflex policy(c.kind, c.answer);
  const rollout::CollectorOptions options = options_of(c, policy);
  const auto columns = rollout::with_boards(
      learners::columns_up_to(learners::kNextMoves, options.obs_spec.features()), options.obs_spec);
  learners::Buffer buffer(columns, c.capacity, device);
  rollout::Collector collector(options, buffer, nullptr, 20);
  for (std::int64_t t = 0; t < c.steps; ++t) collector.step(policy);
  std::vector<rollout::Episode> ended;
  collector.fetch(ended);
  Held out{collector.state(), {}, ended.size()};
  for (std::size_t k = 0; k < columns.size(); ++k) out.rows.push_back(buffer.column(k).to(at::kCPU));
  out.rows.push_back(collector.observations().to(at::kCPU));
  return out;
}

// As bits: a board's may be NaN.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.contiguous().const_data_ptr(), b.contiguous().const_data_ptr(), a.nbytes()) == 0;
}

void compare_held(const Held& held, const Held& expected) {
  for (std::size_t k = 0; k < expected.state.size(); ++k) {
    CAPTURE(expected.state[k].first);
    CHECK(same_bits(held.state[k].second, expected.state[k].second));
  }
  for (std::size_t k = 0; k < expected.rows.size(); ++k) CHECK(same_bits(held.rows[k], expected.rows[k]));
  CHECK(held.ended == expected.ended);
  CHECK(expected.ended == static_cast<std::size_t>(expected.rows.back().size(0)));
}

}  // namespace

TEST_CASE("a device's kernels play the same games as main memory, and store the same rows", "[property]") {
  for (const Case& c : kCases) compare(c, at::kCPU);
}

TEST_CASE("boards may be played in any order, and at once", "[unit]") {
  constexpr Case kSmall[] = {
      {"the curriculum", game::ObsKind::k30, kWeights, 33, 60, 2, 17, 900, 0.0, true, ""},
      {"values, the view, territory", game::ObsKind::kView, kValues, 9, 40, 1, 17, 200, 0.0, false,
       "level2,territory"},
      {"values, the heading up", game::ObsKind::kAhead, kValues, 9, 40, 2, 17, 200, 0.1, false, "level2"},
  };
  for (const auto& way : {shuffled, threaded})
    for (const Case& c : kSmall) compare(c, at::kCPU, way);
}

TEST_CASE("several threads per board compute the same view as one", "[unit]") {
  using game::ObsKind;
  const play::ObsSpec sights[] = {{ObsKind::k26},           {ObsKind::k30},    {ObsKind::kWindow, 4},
                                  {ObsKind::kView},         {ObsKind::kAhead}, {ObsKind::kWindow, 3, true},
                                  {ObsKind::kView, 0, true}};
  constexpr std::int64_t kBoards = 33;
  rollout::RandomBoards played(kBoards, 3, nullptr, at::kCPU);
  game::Position full;
  full.snakes = {{{0, 1, 2}, {}, {40, 41, 42}, {60, 61, 62, 63}, {80, 100, 120}, {}}};
  full.directions = {game::kLeft, game::kUp, game::kLeft, game::kLeft, game::kUp, game::kUp};
  full.beans = {199, 85};
  full.done = true;  // only then may a snake be missing
  const game::State last = game::make_state(full);
  at::Tensor boards = at::empty({kBoards + 1, static_cast<std::int64_t>(sizeof last)}, at::kByte);
  boards[kBoards].copy_(at::from_blob(const_cast<game::State*>(&last), {256}, at::kByte));
  const at::Tensor order = at::arange(kBoards, -1, -1, at::kLong);
  for (int t = 0; t < 120; ++t) {
    played.step();
    if (t % 20 != 19) continue;
    boards.narrow(0, 0, kBoards).copy_(played.boards());
    for (const core::HostLoop& way : {in_blocks_of(64), core::HostLoop(shuffled)}) {
      const HostGoes goes(way);
      for (const play::ObsSpec& obs_spec : sights) {
        at::Tensor shown = at::empty({kBoards + 1, 3, obs_spec.features() + 1}),
                   row = at::empty_like(shown[0]);
        rollout::show_boards(obs_spec, boards, order, shown);
        for (std::int64_t b = 0; b <= kBoards; ++b) {
          obs_spec.write(static_cast<const game::State*>(boards.const_data_ptr())[b], 0,
                         row.data_ptr<float>());
          REQUIRE(same_bits(shown[kBoards - b], row));
        }
      }
    }
  }
}

#ifdef SD_HAVE_WITNESS
TEST_CASE("a fetch copies the games that ended, not their whole ring", "[unit]") {
  // All that is asked for in main memory.
  struct Fetched final : Witness {
    using Witness::rest;
    using Witness::watch;
    void before(const at::RecordFunction& call, int depth) override {
      if (depth == 0 && std::string(call.name()) == "aten::to")
        numbers += call.inputs()[0].toTensor().numel();
    }
    void after(const at::RecordFunction& /*call*/, int /*depth*/) override {}
    std::int64_t numbers = 0;
  };
  const Case c{"", game::ObsKind::k30, kWeights, 33, 0, 1, 17, 900, 0.0, false, "level1"};
  Reflex policy(c.kind, c.answer);
  const rollout::CollectorOptions options = options_of(c, policy);
  learners::Buffer buffer(
      rollout::with_boards(learners::columns_up_to(learners::kDiscount, 30), options.obs_spec), c.capacity);
  rollout::Collector collector(options, buffer, nullptr, 40);  // room for 33 x 4 games
  std::vector<rollout::Episode> ended;
  for (int t = 0; t < 500; ++t) {  // the ring goes round
    collector.step(policy);
    if (t % 20 != 19) continue;
    const std::size_t before = ended.size();
    Fetched fetched;
    fetched.watch();
    collector.fetch(ended);
    fetched.rest();
    const auto games = static_cast<std::int64_t>(ended.size() - before);
    CHECK(fetched.numbers <= 8 + 10 * games);
    CHECK((games == 33 || games == 66));
  }
  CHECK(ended.size() == 29 * 33);
}
#endif

// Hidden: test_device.py runs them where there is a GPU.
TEST_CASE("a device plays the same games as the host and stores the same rows", "[.device]") {
  REQUIRE(nets::kHaveKernels);
  for (const Case& c : kCases) compare(c, at::kCUDA);
}

// Few, for launch/gpu_check.sh's sanitizers, which slow a device down; replay has been filled, so that all of it may be read.
TEST_CASE("1 and 63 boards on a device play the host's games", "[.device]") {
  REQUIRE(nets::kHaveKernels);
  for (const std::int64_t boards : {1, 63}) {
    compare({"30 features", game::ObsKind::k30, kWeights, boards, 40, 2, 17, 2 * boards, 0.0, true, ""},
            at::kCUDA);
    compare({"the view, territory", game::ObsKind::kView, kValues, boards, 40, 1, 17, 2 * boards, 0.0, false,
             "level2,territory"},
            at::kCUDA);
  }
}

TEST_CASE("the threads of a grid play each board once, however many there are", "[unit]") {
  for (const std::int64_t boards : {1, 63, 4097}) {
    for (const Case& c : {kFeatures, kView}) {
      const Held plain = held_after(c, boards, at::kCPU);
      const HostGoes goes(in_blocks_of(64));
      compare_held(held_after(c, boards, at::kCPU), plain);
    }
  }
}

TEST_CASE("65,536 and 1,048,576 boards on a device move as on the host", "[.device]") {
  REQUIRE(nets::kHaveKernels);
  for (const std::int64_t boards : {65'536, 1'048'576}) {
    for (const Case& c : {kFeatures, kView}) {
      const Held there = held_after(c, boards, at::kCUDA);
      const HostGoes goes(on_all_cores);
      compare_held(there, held_after(c, boards, at::kCPU));
    }
  }
}

TEST_CASE("a plan names the schedule's opponents", "[unit]") {
  for (const char* text : {"curriculum", "linear", "exponential", "fixed:3", "fixed:territory"}) {
    const game::Curriculum curriculum = game::parse_curriculum(text);
    for (const bool evasion : {false, true}) {
      const auto at = [&](std::int64_t game) {
        return game::opponent_at(curriculum, std::min<std::int64_t>(game, 1000), 1000, evasion, 700);
      };
      const game::OpponentPlan plan = game::plan_of_schedule(at, 1000);
      for (std::int64_t game = 1; game < 1100; ++game) REQUIRE(plan.of(game) == at(game));
    }
  }
}

TEST_CASE("replay that is smaller than a step's rows is refused", "[unit]") {
  const Case small{"", game::ObsKind::k30, kWeights, 5, 1, 2, 200, 9, 0.0, false, ""};
  Reflex policy(small.kind, small.answer);
  const rollout::CollectorOptions options = options_of(small, policy);
  learners::Buffer buffer(
      rollout::with_boards(learners::columns_up_to(learners::kDiscount, 30), options.obs_spec), 9);
  CHECK_THROWS_AS(rollout::Collector(options, buffer), core::Bug);
}

TEST_CASE("wandering boards are consistent and end their games", "[unit]") {
  const play::ObsSpec obs_spec;
  rollout::RandomBoards boards(65, 3, &obs_spec, at::kCPU);
  std::int64_t fresh = 0;
  for (int t = 0; t < 450; ++t) {
    boards.step();
    const auto* board = static_cast<const game::State*>(boards.boards().const_data_ptr());
    for (int b = 0; b < 65; ++b) {
      game::check_consistency(board[b]);
      fresh += board[b].step() == 1;
    }
  }
  CHECK(fresh == 130);
  std::vector<float> row(static_cast<std::size_t>(3 * (obs_spec.features() + 1)));
  obs_spec.write(static_cast<const game::State*>(boards.boards().const_data_ptr())[64], 0, row.data());
  CHECK(at::equal(boards.observations()[64].reshape(-1), at::tensor(row)));
}
