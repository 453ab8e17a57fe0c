// A fleet plays the collector's games. These tests run the devices' functors in a loop on the host, and, if there is
// a device, on it too.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "../host_loops.hpp"
#include "../witness.hpp"
#include "show_boards.hpp"
#include "snake_ddp/agents/curriculum.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/cuda/kernels.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/learners/columns.hpp"
#include "snake_ddp/rollout/fleet.hpp"

namespace {

using namespace snake_ddp;

// Its outputs depend on its observations, so that a wrong observation leads to other games.
class Reflex final : public nets::Policy {
 public:
  explicit Reflex(std::int64_t features, Answer answer) : answer_(answer) {
    const std::int64_t n = (features + 1) * 4;
    weight_ = at::arange(n, at::kFloat).mul_(0.7).sin_().view({features + 1, 4});
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

struct Case {
  const char* what;
  encode::ObsKind kind;
  nets::Policy::Answer answer;
  std::int64_t boards, steps, n_step, episode_length, capacity;
  double epsilon_min;
  bool mask_fatal;
  const char* mix;  // empty: the curriculum
};

rollout::CollectorOptions options_of(const Case& c, const agents::OpponentPlan& plan) {
  rollout::CollectorOptions o;
  o.num_envs = c.boards;
  o.sight.kind = c.kind;
  o.sight.scaling = encode::is_view(c.kind) ? encode::no_scaling() : encode::feature_scaling(c.kind);
  o.n_step = c.n_step;
  o.episode_length = c.episode_length;
  o.epsilon_min = c.epsilon_min;
  o.epsilon_speed = 0.99999;
  o.mask_fatal = c.mask_fatal;
  o.own_reward = 0.7;
  o.rival_reward = 0.3;
  o.seed = 77;
  o.opponent = [plan](std::int64_t game) { return agents::Rival{plan.of(game)}; };
  return o;
}

agents::OpponentPlan plan_of(const Case& c) {
  if (*c.mix != '\0') return agents::plan_of_mix(agents::parse_mix(c.mix), 77);
  const auto at = [](std::int64_t game) { return agents::opponent_at({}, game, 700, true, 600); };
  return agents::plan_of_schedule(at, 700);
}

// Both play; then their complete states are compared.
void compare(const Case& c, at::Device device) {
  CAPTURE(c.what);
  const agents::OpponentPlan plan = plan_of(c);
  const rollout::CollectorOptions options = options_of(c, plan);
  const auto columns = rollout::with_boards(
      learners::columns_up_to(learners::kNextMoves, options.sight.features()), options.sight);
  replay::Buffer buffer(columns, c.capacity);
  replay::DeviceBuffer device_buffer(columns, c.capacity, device);
  rollout::Collector collector(options, buffer);
  rollout::Fleet fleet(options, plan, device_buffer, 20);
  Reflex policy(options.sight.features(), c.answer);
  std::vector<rollout::Episode> expected, reported;
  for (std::int64_t t = 0; t < c.steps; ++t) {
    collector.step(policy, expected);
    fleet.step(policy);
    if (t % 20 == 19) fleet.fetch(reported);
  }
  fleet.fetch(reported);

  replay::Buffer empty(columns, c.capacity), copy(columns, c.capacity);
  rollout::Collector as_fleet(options, empty);
  fleet.copy_to(as_fleet);
  device_buffer.copy_to(copy);
  CHECK(as_fleet.hash() == collector.hash());
  const nets::NamedTensors theirs = collector.state(), ours = as_fleet.state();
  for (std::size_t k = 0; k < theirs.size(); ++k) {
    CAPTURE(theirs[k].first);
    if (theirs[k].second.dtype() == at::kDouble) {
      CHECK(at::allclose(ours[k].second, theirs[k].second, 1e-10));
    } else if (theirs[k].first == "window") {  // boards: bits, which may be NaN
      CHECK(at::equal(ours[k].second.view(at::kInt), theirs[k].second.view(at::kInt)));
    } else {
      CHECK(at::equal(ours[k].second, theirs[k].second));
    }
  }
  REQUIRE(copy.size() == buffer.size());
  CHECK(copy.appended() == buffer.appended());
  CHECK(copy.next_slot() == buffer.next_slot());
  for (std::size_t k = 0; k < columns.size(); ++k) {
    CAPTURE(columns[k].name);
    const auto rows = [&](const replay::Buffer& of) {
      return of.column(k).narrow(0, 0, of.size()).contiguous().view(at::kInt);
    };
    CHECK(at::equal(rows(copy), rows(buffer)));
  }
  REQUIRE(reported.size() == expected.size());
  REQUIRE(static_cast<std::int64_t>(reported.size()) >= c.boards);
  for (std::size_t k = 0; k < reported.size(); ++k) {
    CHECK(reported[k].number == expected[k].number);
    CHECK(reported[k].started == expected[k].started);
    CHECK(reported[k].steps == expected[k].steps);
    CHECK(reported[k].opponent == expected[k].opponent);
    CHECK(reported[k].epsilon == Approx(expected[k].epsilon).epsilon(1e-10));
    CHECK(std::equal(std::begin(reported[k].snake_return), std::end(reported[k].snake_return),
                     expected[k].snake_return));
    CHECK(std::equal(std::begin(reported[k].team_return), std::end(reported[k].team_return),
                     expected[k].team_return));
  }

  replay::Batch batch, device_batch;
  for (std::uint64_t draw = 0; draw < 3; ++draw) {
    buffer.sample(37, 5, draw, batch);
    device_buffer.sample(37, 5, device_batch);
    for (std::size_t k = 0; k < columns.size(); ++k)
      CHECK(at::equal(device_batch.columns[k].to(at::kCPU), batch.columns[k]));
  }

  // Taken over in the middle of games, it continues as the collector does.
  rollout::Fleet second(options, plan, device_buffer, 20);
  second.copy_from(collector);
  device_buffer.copy_from(buffer, 0);
  for (int t = 0; t < 30; ++t) {
    collector.step(policy, expected);
    second.step(policy);
  }
  second.copy_to(as_fleet);
  CHECK(as_fleet.hash() == collector.hash());
  device_buffer.copy_to(copy);
  CHECK(copy.next_slot() == buffer.next_slot());
}

constexpr auto kWeights = nets::Policy::Answer::kWeights;
constexpr auto kValues = nets::Policy::Answer::kValues;
constexpr Case kCases[] = {
    {"65 boards, 4,096 steps, the curriculum", encode::ObsKind::k30, kWeights, 65, 4096, 1, 200, 3001, 0.0,
     false, ""},
    {"windows of five steps, ladder, mask, mix", encode::ObsKind::k26, kWeights, 33, 700, 5, 200, 1000, 0.05,
     true, "level2:0.7,evasion:0.1,territory:0.2"},
    {"values, boards in replay, games cut off", encode::ObsKind::kView, kValues, 7, 120, 3, 17, 200, 0.0,
     true, "level1,level3,level4"},
    {"one board, its rows as many as replay has room for", encode::ObsKind::kWindow, kWeights, 1, 450, 4, 200,
     4, 0.1, false, "level0"},
};

// What many boards hold after three steps. Games end at the second one.
struct Held {
  nets::NamedTensors state;
  std::vector<at::Tensor> rows;
  std::size_t ended;
};

constexpr Case kFeatures = {"30 features", encode::ObsKind::k30, kWeights, 0, 3, 2, 2, 0, 0.0, true,
                            "level2"};
constexpr Case kView = {"the view, territory", encode::ObsKind::kView, kValues, 0, 3, 1, 2, 0, 0.0, false,
                        "level2,territory"};

Held held_after(Case c, std::int64_t boards, at::Device device) {
  c.boards = boards;
  c.capacity = boards * c.n_step;
  const agents::OpponentPlan plan = plan_of(c);
  const rollout::CollectorOptions options = options_of(c, plan);
  const auto columns = rollout::with_boards(
      learners::columns_up_to(learners::kNextMoves, options.sight.features()), options.sight);
  replay::DeviceBuffer buffer(columns, c.capacity, device);
  rollout::Fleet fleet(options, plan, buffer, 20);
  Reflex policy(options.sight.features(), c.answer);
  for (std::int64_t t = 0; t < c.steps; ++t) fleet.step(policy);
  std::vector<rollout::Episode> ended;
  fleet.fetch(ended);
  Held out{{}, {}, ended.size()};
  replay::Buffer unused(columns, 1);
  rollout::Collector as_fleet(options, unused);
  fleet.copy_to(as_fleet);
  out.state = as_fleet.state();
  for (std::size_t k = 0; k < columns.size(); ++k) out.rows.push_back(buffer.column(k).to(at::kCPU));
  out.rows.push_back(fleet.observations().to(at::kCPU));
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

TEST_CASE("a fleet plays the collector's games and stores the same rows", "[property]") {
  for (const Case& c : kCases) compare(c, at::kCPU);
}

TEST_CASE("boards may be played in any order, and at once", "[unit]") {
  constexpr Case kSmall[] = {
      {"the curriculum", encode::ObsKind::k30, kWeights, 33, 60, 2, 17, 900, 0.0, true, ""},
      {"values, the view, territory", encode::ObsKind::kView, kValues, 9, 40, 1, 17, 200, 0.0, false,
       "level2,territory"},
      {"values, the heading up", encode::ObsKind::kAhead, kValues, 9, 40, 2, 17, 200, 0.1, false, "level2"},
  };
  for (const auto& way : {shuffled, threaded}) {
    const HostGoes goes(way);
    for (const Case& c : kSmall) compare(c, at::kCPU);
  }
}

TEST_CASE("several threads per board compute the same view as one", "[unit]") {
  using encode::ObsKind;
  const play::Sight sights[] = {{ObsKind::k26, encode::feature_scaling(ObsKind::k26)},
                                {ObsKind::k30, encode::feature_scaling(ObsKind::k30)},
                                {ObsKind::kWindow, encode::no_scaling(), 4},
                                {ObsKind::kView},
                                {ObsKind::kAhead},
                                {ObsKind::kWindow, encode::no_scaling(), 3, true},
                                {ObsKind::kView, encode::no_scaling(), 0, true}};
  constexpr std::int64_t kBoards = 33;
  rollout::Wanderers played(kBoards, 3, nullptr, at::kCPU);
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
    for (const base::HostLoop& way : {base::HostLoop(), base::HostLoop(shuffled)}) {
      const HostGoes goes(way);
      for (const play::Sight& sight : sights) {
        at::Tensor shown = at::empty({kBoards + 1, 3, sight.features() + 1}), row = at::empty_like(shown[0]);
        rollout::show_boards(sight, boards, order, shown);
        for (std::int64_t b = 0; b <= kBoards; ++b) {
          sight.write(static_cast<const game::State*>(boards.const_data_ptr())[b], 0, row.data_ptr<float>());
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
  const Case c{"", encode::ObsKind::k30, kWeights, 33, 0, 1, 17, 900, 0.0, false, "level1"};
  const agents::OpponentPlan plan = plan_of(c);
  const rollout::CollectorOptions options = options_of(c, plan);
  replay::DeviceBuffer buffer(
      rollout::with_boards(learners::columns_up_to(learners::kDiscount, 30), options.sight), c.capacity,
      at::kCPU);
  rollout::Fleet fleet(options, plan, buffer, 40);  // room for 33 x 4 games
  Reflex policy(options.sight.features(), c.answer);
  std::vector<rollout::Episode> ended;
  for (int t = 0; t < 500; ++t) {  // the ring goes round
    fleet.step(policy);
    if (t % 20 != 19) continue;
    const std::size_t before = ended.size();
    Fetched fetched;
    fetched.watch();
    fleet.fetch(ended);
    fetched.rest();
    const auto games = static_cast<std::int64_t>(ended.size() - before);
    CHECK(fetched.numbers <= 8 + 10 * games);
    CHECK((games == 33 || games == 66));
  }
  CHECK(ended.size() == 29 * 33);
}
#endif

// Hidden: test_device.py runs them where there is a GPU.
TEST_CASE("a fleet on a device plays the collector's games and stores the same rows", "[.device]") {
  REQUIRE(cuda::kHaveKernels);
  for (const Case& c : kCases) compare(c, at::kCUDA);
}

// Few, for launch/gpu_check.sh's sanitizers, which slow a device down; replay has been filled, so that all of it may be read.
TEST_CASE("1 and 63 boards on a device play the collector's games", "[.device]") {
  REQUIRE(cuda::kHaveKernels);
  for (const std::int64_t boards : {1, 63}) {
    compare({"30 features", encode::ObsKind::k30, kWeights, boards, 40, 2, 17, 2 * boards, 0.0, true, ""},
            at::kCUDA);
    compare({"the view, territory", encode::ObsKind::kView, kValues, boards, 40, 1, 17, 2 * boards, 0.0,
             false, "level2,territory"},
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
  REQUIRE(cuda::kHaveKernels);
  for (const std::int64_t boards : {65'536, 1'048'576}) {
    for (const Case& c : {kFeatures, kView}) {
      const Held there = held_after(c, boards, at::kCUDA);
      const HostGoes goes(on_all_cores);
      compare_held(there, held_after(c, boards, at::kCPU));
    }
  }
}

TEST_CASE("a plan names the schedule's opponents, and draws as a mix does", "[unit]") {
  for (const char* text : {"curriculum", "linear", "exponential", "fixed:3", "fixed:territory"}) {
    const agents::Curriculum curriculum = agents::parse_curriculum(text);
    for (const bool evasion : {false, true}) {
      const auto at = [&](std::int64_t game) {
        return agents::opponent_at(curriculum, std::min<std::int64_t>(game, 1000), 1000, evasion, 700);
      };
      const agents::OpponentPlan plan = agents::plan_of_schedule(at, 1000);
      for (std::int64_t game = 1; game < 1100; ++game) REQUIRE(plan.of(game) == at(game));
    }
  }
  const agents::Mix mix = agents::parse_mix("level2:0.7,level4:3,territory");
  const agents::OpponentPlan plan = agents::plan_of_mix(mix, 9);
  for (std::uint64_t game = 1; game < 2000; ++game)
    REQUIRE(plan.of(static_cast<std::int64_t>(game)) == *agents::drawn(mix, 9, game).rival.scripted);
  CHECK_THROWS_AS(agents::plan_of_mix(agents::parse_mix("level2,self"), 1), base::UsageError);
}

TEST_CASE("replay that is smaller than a step's rows is refused", "[unit]") {
  const Case small{"", encode::ObsKind::k30, kWeights, 5, 1, 2, 200, 9, 0.0, false, ""};
  const agents::OpponentPlan plan = plan_of(small);
  const rollout::CollectorOptions options = options_of(small, plan);
  replay::DeviceBuffer buffer(
      rollout::with_boards(learners::columns_up_to(learners::kDiscount, 30), options.sight), 9, at::kCPU);
  CHECK_THROWS_AS(rollout::Fleet(options, plan, buffer, 20), base::UsageError);
}

TEST_CASE("wandering boards are consistent and end their games", "[unit]") {
  const play::Sight sight;
  rollout::Wanderers boards(65, 3, &sight, at::kCPU);
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
  std::vector<float> row(static_cast<std::size_t>(3 * (sight.features() + 1)));
  sight.write(static_cast<const game::State*>(boards.boards().const_data_ptr())[64], 0, row.data());
  CHECK(at::equal(boards.observations()[64].reshape(-1), at::tensor(row)));
}
