// A rollout: what it stores of each step, its returns and its batches.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "learners/columns.hpp"
#include "rollout/collector.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/permutation.hpp"

namespace {

using namespace snake_ddp;

const play::ObsSpec kSight{game::ObsKind::kAhead};

// Values that depend on what a snake sees.
class Looking final : public nets::Policy {
 public:
  [[nodiscard]] Answer answer() const override { return Answer::kValues; }
  const at::Tensor& action_values(const at::Tensor& observations) override {
    return out_ = at::matmul(observations, weight_);
  }

 private:
  at::Tensor weight_ = at::randn({kSight.features() + 1, 4}, at::make_generator<at::CPUGeneratorImpl>(3)),
             out_;
};

rollout::CollectorOptions options_with(std::int64_t episode_length) {
  rollout::CollectorOptions o;
  o.num_envs = 5;
  o.obs_spec = kSight;
  o.mask_fatal = true;
  o.epsilon = o.epsilon_min = 0.2;
  o.gamma = 0.9;
  o.episode_length = episode_length;
  o.rivals = {{game::Opponent::kLevel2}, {}, {}, {game::Opponent::kLevel1}, {game::Opponent::kLevel0}};
  return o;
}

constexpr rollout::RolloutOptions kShape{.steps = 12, .epochs = 2, .batches = 4, .lambda = 0.65, .seed = 9};
constexpr std::int64_t kSeats = 7;

// A collector with a rollout in the place of replay.
struct Game {
  explicit Game(std::int64_t episode_length, const rollout::RolloutOptions& shape = kShape)
      : options(options_with(episode_length)),
        unused(learners::columns_up_to(learners::kReward, kSight.features()), 1),
        rollout(shape, options, rollout::seats_of(options.rivals, options.num_envs), at::kCPU),
        collector(options, unused, &rollout) {}

  void play(std::int64_t steps) {
    for (; steps > 0; --steps) {
      collector.step(policy, ended);
      rollout.stepped();
    }
  }

  learners::Batch take() {
    if (rollout.is_due()) collector.finish(policy);
    rollout.take(batch);
    rollout.took();
    learners::Batch copy;
    for (const at::Tensor& column : batch.columns) copy.columns.push_back(column.clone());
    return copy;
  }

  rollout::CollectorOptions options;
  learners::Buffer unused;
  rollout::Rollout rollout;
  rollout::Collector collector;
  Looking policy;
  std::vector<rollout::Episode> ended;
  learners::Batch batch;
};

// The value of a board to a team: of each snake its best open move's.
std::vector<float> worth(Looking& policy, const game::State& board, int team) {
  at::Tensor seen = at::empty({1, 3, kSight.features() + 1});
  kSight.write(board, team, seen.data_ptr<float>());
  const at::Tensor values = policy.action_values(seen)[0];
  std::vector<float> out;
  for (int snake = 0; snake < 3; ++snake) {
    const int index = team * 3 + snake;
    float best = -1e30F;
    for (int move = 0; move < 4; ++move)
      if ((game::open_moves(board, index) >> game::direction_of(kSight.up(board, index), move) & 1U) != 0)
        best = std::max(best, values[snake][move].item<float>());
    out.push_back(best);
  }
  return out;
}

at::Tensor part(const nets::NamedTensors& state, const char* name) {
  const at::Tensor* found = nets::find(state, name);
  REQUIRE(found != nullptr);
  return *found;
}

}  // namespace

TEST_CASE("returns are those of each game's rewards and of the values that its moves were chosen by",
          "[property]") {
  const std::int64_t length =
      GENERATE(200, 17, 5);  // games that end, or are cut off, also twice in a rollout
  const double lambda = GENERATE(0.0, 0.65, 1.0);
  rollout::RolloutOptions shape = kShape;
  shape.lambda = lambda;
  Game game(length, shape);
  const rollout::Seats seats = game.rollout.arrays().seats;
  REQUIRE(seats.count() == kSeats);
  int ends = 0;
  for (int r = 0; r < (length == 200 ? 20 : 4); ++r) {
    struct Turn {
      std::vector<float> reward, value, next;
      bool over, ends;
    };
    std::vector<std::vector<Turn>> turns;  // [steps][seats]
    for (int t = 0; t < 12; ++t) {
      const std::vector<game::State> before = game.collector.boards();
      game.play(1);
      std::vector<Turn>& now = turns.emplace_back();
      const nets::NamedTensors state = game.rollout.state();
      for (std::int64_t seat = 0; seat < kSeats; ++seat) {
        const auto board = static_cast<std::size_t>(seats.board(seat));
        const int team = seats.team(seat);
        const std::int64_t row = t * kSeats + seat;
        const float discount = part(state, "discount")[row].item<float>();
        Turn turn{{}, worth(game.policy, before[board], team), {}, discount == 0, discount <= 0};
        for (int k = 0; k < 3; ++k) {
          turn.reward.push_back(part(state, "reward")[row][k].item<float>());
          CHECK(part(state, "value")[row][k].item<float>() ==
                Approx(turn.value[static_cast<std::size_t>(k)]).margin(1e-5));
        }
        // The board that follows, as team A sees it; of a game that was cut off, the one before the next game.
        game::State next = game.collector.boards()[board];
        if (discount < 0) {
          std::memcpy(&next, part(state, "cut_board")[t / length * kSeats + seat].const_data_ptr(),
                      sizeof next);
          CHECK(next.step() == static_cast<int>(length) + 1);
        }
        turn.next = worth(game.policy, next, discount < 0 ? 0 : team);
        ends += turn.ends;
        now.push_back(turn);
      }
    }
    // G = r + 0.9 ((1 - lambda) V + lambda G'), where the rollout or a game that is cut off ends r + 0.9 V, at an end r.
    std::vector<std::vector<std::vector<double>>> expected(12, std::vector(kSeats, std::vector<double>(3)));
    for (std::size_t t = 12; t-- > 0;) {
      for (std::size_t seat = 0; seat < kSeats; ++seat) {
        const Turn& turn = turns[t][seat];
        for (std::size_t k = 0; k < 3; ++k) {
          const double v = turn.next[k], rest = t == 11 || turn.ends ? v : expected[t + 1][seat][k];
          expected[t][seat][k] = turn.reward[k] + (turn.over ? 0 : 0.9 * ((1 - lambda) * v + lambda * rest));
        }
      }
    }
    for (int batch = 0; batch < 8; ++batch) game.take();
    const auto* returns = game.rollout.arrays().reward;
    for (std::size_t t = 0; t < 12; ++t)
      for (std::size_t seat = 0; seat < kSeats; ++seat)
        for (std::size_t k = 0; k < 3; ++k)
          CHECK(returns[(t * kSeats + seat) * 3 + k] == Approx(expected[t][seat][k]).margin(1e-4));
  }
  CHECK(ends >= kSeats);
}

TEST_CASE("an epoch's batches are the rollout's rows, each once, in an order of its own", "[property]") {
  Game game(200);
  std::set<std::vector<float>> orders;
  for (int r = 0; r < 3; ++r) {
    game.play(12);
    REQUIRE(game.rollout.is_due());
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<float> sums;
      for (int b = 0; b < 4; ++b) {
        const learners::Batch batch = game.take();
        REQUIRE(batch.columns[learners::kObservation].sizes() ==
                at::IntArrayRef({21, 3, kSight.features() + 1}));
        REQUIRE(batch.columns[learners::kAction].sizes() == at::IntArrayRef({21, 3, 4}));
        REQUIRE(at::equal(batch.columns[learners::kAction].sum(2), at::ones({21, 3})));
        const at::Tensor sum =
            batch.columns[learners::kObservation].to(at::kDouble).sum({1, 2}).to(at::kFloat);
        sums.insert(sums.end(), sum.const_data_ptr<float>(), sum.const_data_ptr<float>() + 21);
      }
      CHECK(orders.insert(sums).second);
      const at::Tensor board = at::empty({84, 3, kSight.features() + 1});
      const auto* stored = game.rollout.arrays().board;
      for (int row = 0; row < 84; ++row) kSight.write(stored[row], 0, board[row].data_ptr<float>());
      const at::Tensor all = board.to(at::kDouble).sum({1, 2}).to(at::kFloat);
      std::vector<float> rows(all.const_data_ptr<float>(), all.const_data_ptr<float>() + 84);
      std::sort(rows.begin(), rows.end());
      std::sort(sums.begin(), sums.end());
      CHECK(rows == sums);
    }
    CHECK(game.rollout.stored() == 0);
  }
}

TEST_CASE("a rollout goes on from its state, between steps and between batches", "[property]") {
  for (const std::int64_t length : {200, 17, 5}) {
    for (const auto& [steps, batches] : {std::pair{5, 0}, {12, 0}, {12, 3}, {12, 7}}) {
      CAPTURE(length, steps, batches);
      Game first(length), second(length);
      first.play(12);  // a rollout before it
      for (int k = 0; k < 8; ++k) first.take();
      first.play(steps);
      for (int k = 0; k < batches; ++k) first.take();
      REQUIRE(second.collector.restore(first.collector.state(), "state"));
      REQUIRE(second.rollout.fits(first.rollout.state()));
      second.rollout.restore(first.rollout.state(), 8 + batches);
      CHECK(second.rollout.stored() == steps * kSeats);
      for (Game* g : {&first, &second}) g->play(12 - steps);
      for (int k = batches; k < 8; ++k) {
        const learners::Batch a = first.take(), b = second.take();
        for (std::size_t c = 0; c < 3; ++c) CHECK(at::equal(a.columns[c], b.columns[c]));
      }
    }
  }
}

TEST_CASE("a rollout between two others has no state, one of another shape does not fit", "[unit]") {
  Game game(200);
  CHECK(game.rollout.state().empty());
  game.play(1);
  rollout::RolloutOptions longer = kShape;
  longer.steps = 13;
  Game other(200, longer);
  CHECK_FALSE(other.rollout.fits(game.rollout.state()));
  game.rollout.restore({}, 0);
  CHECK(game.rollout.state().empty());
}

TEST_CASE("impossible values in a rollout's state are refused", "[unit]") {
  Game game(17);
  game.play(12);
  game.take();
  const auto spoilt = [&](const char* name, const auto& spoil) {
    nets::NamedTensors state = game.rollout.state();
    for (auto& [of, tensor] : state)
      if (of == name) spoil(tensor);
    CAPTURE(name);
    CHECK_THROWS_AS(Game(17).rollout.restore(state, 1), core::FileError);
  };
  for (const std::int64_t step : {-1, 0, 11, 13}) spoilt("step", [&](at::Tensor& t) { t.fill_(step); });
  for (const std::int64_t taken : {-1, 8}) spoilt("taken", [&](at::Tensor& t) { t.fill_(taken); });
  spoilt("board", [](at::Tensor& t) { t[83].fill_(-1.5F); });
  for (const char* name : {"board", "action", "reward", "discount", "value", "cut_board"}) {
    spoilt(name, [](at::Tensor& t) { t = t.to(at::kDouble); });
    spoilt(name, [](at::Tensor& t) { t = t.narrow(0, 0, 1).clone(); });
  }
  Game cut(17);
  cut.play(12);
  for (int k = 0; k < 8; ++k) cut.take();
  cut.play(6);
  nets::NamedTensors state = cut.rollout.state();
  Game(17).rollout.restore(state, 8);
  for (auto& [name, tensor] : state)
    if (name == "cut_board") tensor.fill_(-1.5F);
  CHECK_THROWS_AS(Game(17).rollout.restore(state, 8), core::FileError);
}

TEST_CASE("a permutation has each item once, and depends on seed and key", "[property]") {
  for (std::uint64_t n = 1; n < 300; ++n) {
    std::set<std::uint64_t> items;
    for (std::uint64_t i = 0; i < n; ++i) items.insert(core::permuted(i, n, 5, 7));
    REQUIRE(items.size() == n);
    REQUIRE(*items.rbegin() == n - 1);
  }
  // Each item is as often at each place: 2,000 orders of 8.
  std::vector<int> counts(64, 0);
  for (std::uint64_t key = 0; key < 2000; ++key)
    for (std::uint64_t i = 0; i < 8; ++i) ++counts[i * 8 + core::permuted(i, 8, 5, key)];
  for (const int count : counts) CHECK(std::abs(count - 250) < 75);
  int moved = 0;
  for (std::uint64_t i = 0; i < 100; ++i)
    moved += core::permuted(i, 100, 5, 7) != core::permuted(i, 100, 6, 7);
  CHECK(moved > 90);
}
