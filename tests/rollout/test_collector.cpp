#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>

#include "learners/columns.hpp"
#include "rollout/board_graphs.hpp"
#include "rollout/collector.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/moves.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/game/sides.hpp"
#include "snake_ddp/game/snake_graph.hpp"

namespace {

using namespace snake_ddp;

// A policy with fixed outputs: these weights, or values, for every snake.
class Fixed final : public nets::Policy {
 public:
  explicit Fixed(std::array<float, 4> weights, Answer answer = Answer::kWeights)
      : weights_(weights), answer_(answer) {}
  [[nodiscard]] Answer answer() const override { return answer_; }
  const at::Tensor& action_values(const at::Tensor& observations) override {
    asked.push_back(observations.size(0));
    out_ = at::from_blob(weights_.data(), {4}, at::kFloat).expand({observations.size(0), 3, 4}).contiguous();
    return out_;
  }

 private:
  std::array<float, 4> weights_;
  Answer answer_;
  at::Tensor out_;

 public:
  std::vector<std::int64_t> asked;  // numbers of teams, by call
};

constexpr game::Rival kSelf{}, kScript{game::Opponent::kLevel2}, kFrozen{std::nullopt, 0},
    kOther{std::nullopt, 1};

std::vector<learners::Column> columns(int features) {
  return rollout::with_boards(learners::columns_up_to(learners::kDiscount, features), {});
}

std::vector<learners::Column> dqn_columns(const play::ObsSpec& obs_spec, bool linked = false) {
  const learners::TransitionColumn last = linked ? learners::kBack : learners::kNextMoves;
  return rollout::with_boards(learners::columns_up_to(last, obs_spec.features()), obs_spec);
}

// A column of the rows in replay, as in a batch.
at::Tensor shown(learners::Buffer& buffer, std::size_t column) {
  learners::Batch batch;
  buffer.gather(at::arange(buffer.size()), batch);
  return batch.columns[column];
}

rollout::CollectorOptions options_for(std::int64_t boards, std::uint64_t seed = 1) {
  rollout::CollectorOptions o;
  o.num_envs = boards;
  o.seed = seed;
  o.reward = game::RewardRule::kScore;
  o.schedule = game::plan_of_schedule([](std::int64_t) { return game::Opponent::kLevel2; }, 1);
  return o;
}

struct Played {
  std::uint64_t hash;
  at::Tensor rewards;
  std::vector<rollout::Episode> episodes;
};

Played played_by(const rollout::CollectorOptions& options, int steps) {
  learners::Buffer buffer(columns(30), 20000);
  rollout::Collector collector(options, buffer);
  Fixed policy({0.4F, 0.3F, 0.2F, 0.1F});
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < steps; ++i) collector.step(policy, episodes);
  return {collector.hash(), buffer.column(learners::kReward).narrow(0, 0, buffer.size()).clone(), episodes};
}

}  // namespace

TEST_CASE("the same seed plays the same games, another rank's seed plays others", "[unit]") {
  const Played a = played_by(options_for(5, 1), 300), b = played_by(options_for(5, 1), 300),
               c = played_by(options_for(5, 2), 300);
  CHECK(a.hash == b.hash);
  CHECK(at::equal(a.rewards, b.rewards));
  CHECK(a.hash != c.hash);
}

TEST_CASE("a game of 200 steps is one episode and its returns are sums of the game's rewards", "[unit]") {
  const Played p = played_by(options_for(3), 400);
  REQUIRE(p.episodes.size() == 6);
  std::int64_t number = 0;
  for (const rollout::Episode& e : p.episodes) {
    CHECK(e.number == ++number);
    CHECK(e.steps == 200);
    CHECK(e.snake_return[0] + e.snake_return[1] + e.snake_return[2] == e.team_return[0]);
  }
  // Reward `score` is the game's own, so replay's rewards sum to the episodes' returns.
  std::int64_t total = 0;
  for (const rollout::Episode& e : p.episodes) total += e.team_return[0];
  CHECK(p.rewards.sum().item<double>() == static_cast<double>(total));
}

TEST_CASE("n-step transitions equal the sums made from one-step ones", "[property]") {
  const int steps = 450;  // two ends of games and a piece of a third
  rollout::CollectorOptions one = options_for(1), five = options_for(1);
  five.n_step = 5;
  one.gamma = five.gamma = 0.9;
  learners::Buffer buffer1(columns(30), 1000), buffer5(columns(30), 1000);
  rollout::Collector collector1(one, buffer1), collector5(five, buffer5);
  Fixed policy({0.4F, 0.3F, 0.2F, 0.1F});
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < steps; ++i) {
    collector1.step(policy, episodes);
    collector5.step(policy, episodes);
  }
  REQUIRE(buffer1.size() == steps);
  REQUIRE(buffer5.size() == steps - 4);  // the last four wait for their rewards
  std::map<std::pair<const learners::Buffer*, std::size_t>, at::Tensor> columns_of;
  for (std::size_t c = 0; c < 5; ++c) {
    columns_of[{&buffer1, c}] = shown(buffer1, c);
    columns_of[{&buffer5, c}] = shown(buffer5, c);
  }
  const auto row = [&](const learners::Buffer& b, std::size_t column, std::int64_t r) {
    return columns_of.at({&b, column})[r];
  };
  for (std::int64_t t = 0; t < buffer5.size(); ++t) {
    CAPTURE(t);
    REQUIRE(at::equal(row(buffer5, learners::kObservation, t), row(buffer1, learners::kObservation, t)));
    REQUIRE(at::equal(row(buffer5, learners::kAction, t), row(buffer1, learners::kAction, t)));
    at::Tensor sum = at::zeros({3});
    double factor = 1.0;
    std::int64_t last = t;
    bool ended = false;
    for (int k = 0; k < 5 && !ended; ++k) {
      last = t + k;
      sum += factor * row(buffer1, learners::kReward, last);
      factor *= 0.9;
      ended = row(buffer1, learners::kDiscount, last)[0].item<float>() == 0.0F;
    }
    REQUIRE(at::allclose(row(buffer5, learners::kReward, t), sum, 1e-5, 1e-6));
    REQUIRE(at::equal(row(buffer5, learners::kNextObservation, t),
                      row(buffer1, learners::kNextObservation, last)));
    REQUIRE(row(buffer5, learners::kDiscount, t)[1].item<double>() ==
            Approx(ended ? 0.0 : factor).epsilon(1e-6));
  }
}

TEST_CASE("a game cut off by --episode_length is truncated: its last transition still bootstraps", "[unit]") {
  rollout::CollectorOptions cut = options_for(1);
  cut.episode_length = 50;
  cut.n_step = 3;
  cut.gamma = 0.5;
  learners::Buffer buffer(columns(30), 1000);
  rollout::Collector collector(cut, buffer);
  Fixed policy({1, 1, 1, 1});
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < 50; ++i) collector.step(policy, episodes);
  REQUIRE(episodes.size() == 1);
  CHECK(episodes[0].steps == 50);
  REQUIRE(buffer.size() == 50);
  CHECK(buffer.column(learners::kDiscount)[49][0].item<float>() == 0.5F);
  CHECK(buffer.column(learners::kDiscount)[48][0].item<float>() == 0.25F);
  CHECK(buffer.column(learners::kDiscount)[10][0].item<float>() == 0.125F);
}

TEST_CASE("the next observation of a transition is the observation of the one after it within a game",
          "[property]") {
  learners::Buffer buffer(columns(30), 1000);
  rollout::Collector collector(options_for(1), buffer);
  Fixed policy({0.4F, 0.3F, 0.2F, 0.1F});
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < 400; ++i) collector.step(policy, episodes);
  const at::Tensor now = shown(buffer, learners::kObservation),
                   next = shown(buffer, learners::kNextObservation);
  int ends = 0;
  for (std::int64_t t = 0; t + 1 < 400; ++t) {
    const bool end = buffer.column(learners::kDiscount)[t][0].item<float>() == 0.0F;
    ends += end;
    const bool same = at::equal(next[t], now[t + 1]);
    REQUIRE(same != end);
  }
  CHECK(ends == 1);
}

TEST_CASE("epsilon decays at every decision; as a ladder it is constant and spread over the boards",
          "[unit]") {
  rollout::CollectorOptions decaying = options_for(4);
  decaying.epsilon = 0.5;
  decaying.epsilon_speed = 0.99;
  learners::Buffer buffer(columns(30), 1000);
  rollout::Collector collector(decaying, buffer);
  Fixed policy({1, 1, 1, 1});
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < 10; ++i) collector.step(policy, episodes);
  CHECK(collector.epsilon() == Approx(0.5 * std::pow(0.99, 40)));

  // A policy that always goes right: moves in other directions come from exploring, more of them up the
  // ladder.
  rollout::CollectorOptions ladder = options_for(3);
  ladder.epsilon = 0.9;
  ladder.epsilon_min = 0.001;
  ladder.store_played = true;
  learners::Buffer played(columns(30), 10000);
  rollout::Collector climber(ladder, played);
  Fixed right({0, 0, 0, 1});
  for (int i = 0; i < 1000; ++i) climber.step(right, episodes);
  std::array<int, 3> others{};
  for (std::int64_t t = 0; t < 3000; ++t) {
    const at::Tensor action = played.column(learners::kAction)[t];
    REQUIRE(action.sum().item<float>() == 3.0F);  // one-hot for each snake
    others[static_cast<std::size_t>(t % 3)] += action[0][3].item<float>() != 1.0F;
  }
  CHECK(others[0] < 10);
  CHECK(others[1] < others[2]);
  CHECK(others[2] > 500);
}

TEST_CASE("exploring replaces the whole team's vector by numbers in the action's range", "[unit]") {
  for (const double low : {0.0, -1.0}) {
    rollout::CollectorOptions o = options_for(1);
    o.epsilon = 1.0;
    o.epsilon_speed = 1.0;
    o.random_low = low;
    learners::Buffer buffer(columns(30), 1000);
    rollout::Collector collector(o, buffer);
    Fixed policy({9, 9, 9, 9});
    std::vector<rollout::Episode> episodes;
    for (int i = 0; i < 200; ++i) collector.step(policy, episodes);
    const at::Tensor actions = buffer.column(learners::kAction).narrow(0, 0, 200);
    CHECK(actions.min().item<double>() >= low);
    CHECK(actions.max().item<double>() < 1.0);
    CHECK(actions.mean().item<double>() == Approx((low + 1) / 2).margin(0.05));
    CHECK(actions.std().item<double>() > 0.25 * (1 - low));
  }
}

TEST_CASE("moves are drawn in proportion to positive weights, uniformly where none is positive",
          "[property]") {
  const std::array<float, 4> weights = {1, -5, 2, 1};
  const std::array<float, 4> none = {-1, 0, -2, -3};
  std::array<int, 4> count{}, count_none{};
  core::RandomStream random(1, 1, core::Purpose::kTest);
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i) {
    ++count[play::sampled_move(weights.data(), random.unit())];
    ++count_none[play::sampled_move(none.data(), random.unit())];
  }
  CHECK(count[1] == 0);
  CHECK(count[0] == Approx(kDraws / 4).margin(400));
  CHECK(count[2] == Approx(kDraws / 2).margin(400));
  for (const int n : count_none) CHECK(n == Approx(kDraws / 4).margin(400));
  const std::array<float, 4> last_zero = {1, 1, 1, 0};
  CHECK(play::sampled_move(last_zero.data(), 0.99999994F) == 2);
  CHECK(play::best_move(weights.data()) == 2);
}

TEST_CASE("with a mask, sampled and best moves are among the open ones", "[property]") {
  const std::array<float, 4> weights = {5, -1, 2, 1};
  core::RandomStream random(2, 1, core::Purpose::kTest);
  for (unsigned open = 1; open < 16; ++open) {
    std::array<int, 4> drawn{}, uniform{};
    const std::array<float, 4> none{};
    for (int i = 0; i < 4000; ++i) {
      ++drawn[play::sampled_move(weights.data(), random.unit(), open)];
      ++uniform[play::sampled_move(none.data(), random.unit(), open)];
    }
    int count = 0;
    for (unsigned a = 0; a < 4; ++a) count += static_cast<int>(open >> a & 1U);
    for (unsigned a = 0; a < 4; ++a) {
      const bool may = (open >> a & 1U) != 0;
      CAPTURE(open, a);
      CHECK((may || drawn[a] + uniform[a] == 0));
      if (may) CHECK(uniform[a] == Approx(4000.0 / count).margin(250));
    }
    const std::uint8_t best = play::best_move(weights.data(), open);
    CHECK((open >> best & 1U) == 1U);
    for (unsigned a = 0; a < 4; ++a) CHECK(((open >> a & 1U) == 0 || weights[a] <= weights[best]));
    CHECK(play::sampled_move(none.data(), 0.99999994F, open) < 4);
  }
}

TEST_CASE("the best value is played, except for masked moves and exploration", "[property]") {
  const play::ObsSpec obs_spec{game::ObsKind::kWindow, {}};
  const std::array<float, 4> values = {-4, -1, -2, -3};  // down, then left, right, up
  for (const double epsilon : {0.0, 1.0}) {
    for (const bool mask : {false, true}) {
      rollout::CollectorOptions o = options_for(1);
      o.obs_spec = obs_spec;
      o.epsilon = epsilon;
      o.epsilon_speed = 1.0;
      o.mask_fatal = mask;
      learners::Buffer buffer(dqn_columns(obs_spec), 1000);
      rollout::Collector collector(o, buffer);
      Fixed policy(values, nets::Policy::Answer::kValues);
      std::vector<rollout::Episode> episodes;
      std::vector<game::State> before;
      for (int i = 0; i < 400; ++i) {
        before.push_back(collector.boards()[0]);
        collector.step(policy, episodes);
      }
      const at::Tensor actions = shown(buffer, learners::kAction), next = shown(buffer, learners::kNextMoves),
                       seen = shown(buffer, learners::kObservation);
      std::array<int, 4> moves{};
      for (std::size_t t = 0; t < before.size(); ++t) {
        const auto row = static_cast<std::int64_t>(t);
        std::vector<float> expected(3 * 278);
        obs_spec.write(before[t], 0, expected.data());
        REQUIRE(at::equal(seen[row].reshape({-1}), at::tensor(expected)));
        for (int snake = 0; snake < 3; ++snake) {
          const unsigned open = mask ? game::open_moves(before[t], snake) : 15U;
          const at::Tensor action = actions[row][snake];
          REQUIRE(action.sum().item<float>() == 1.0F);  // one-hot, whatever was asked for
          const auto move = static_cast<unsigned>(action.argmax().item<std::int64_t>());
          REQUIRE((open >> move & 1U) == 1U);
          if (epsilon == 0.0) REQUIRE(move == play::best_move(values.data(), open));
          ++moves[move];
          if (before[t].step() == game::kMaxSteps) continue;
          for (unsigned a = 0; a < 4; ++a) {
            const unsigned open_next = mask ? game::open_moves(before[t + 1], snake) : 15U;
            REQUIRE(next[row][snake][a].item<float>() == static_cast<float>(open_next >> a & 1U));
          }
        }
      }
      if (epsilon == 1.0 && !mask)
        for (const int n : moves) CHECK(n == Approx(300).margin(75));
    }
  }
}

TEST_CASE("in self-play both teams' transitions are stored, team B's as if it were team A", "[property]") {
  const play::ObsSpec obs_spec{game::ObsKind::kWindow, {}};
  rollout::CollectorOptions o = options_for(2);
  o.obs_spec = obs_spec;
  o.n_step = 3;
  o.rivals = {kSelf, kScript};
  learners::Buffer buffer(dqn_columns(obs_spec), 10000);
  rollout::Collector collector(o, buffer);
  Fixed policy({0.4F, 0.3F, 0.2F, 0.1F});
  std::vector<rollout::Episode> episodes;
  std::vector<game::State> first;
  for (int i = 0; i < 200; ++i) {
    first.push_back(collector.boards()[0]);
    collector.step(policy, episodes);
  }
  REQUIRE(episodes.size() == 2);
  CHECK(episodes[0].opponent.is_self());
  CHECK(episodes[1].opponent == game::Rival{game::Opponent::kLevel2});
  REQUIRE(buffer.size() == 3 * 200);
  // Board 0's teams A and B, then board 1's team A, at each step.
  const at::Tensor seen = shown(buffer, learners::kObservation), rewards = shown(buffer, learners::kReward);
  for (std::int64_t t = 0; t < 190; ++t) {
    for (int team = 0; team < 2; ++team) {
      std::vector<float> expected(3 * 278);
      obs_spec.write(first[static_cast<std::size_t>(t)], team, expected.data());
      REQUIRE(at::equal(seen[3 * t + team].reshape({-1}), at::tensor(expected)));
    }
  }
  // The last row of each game holds the last step's reward alone: sums over it telescope.
  rollout::CollectorOptions one = o;
  one.n_step = 1;
  learners::Buffer buffer1(dqn_columns(obs_spec), 10000);
  rollout::Collector collector1(one, buffer1);
  episodes.clear();
  for (int i = 0; i < 200; ++i) collector1.step(policy, episodes);
  const at::Tensor sums = shown(buffer1, learners::kReward).view({200, 3, 3}).sum(at::IntArrayRef({0, 2}));
  CHECK(sums[0].item<double>() == episodes[0].team_return[0]);
  CHECK(sums[1].item<double>() == episodes[0].team_return[1]);
  CHECK(sums[2].item<double>() == episodes[1].team_return[0]);
}

TEST_CASE("each transition links to its game's previous one", "[property]") {
  const play::ObsSpec obs_spec{game::ObsKind::kWindow, {}};
  const std::int64_t n_step = GENERATE(1, 3);
  rollout::CollectorOptions o = options_for(3);
  o.obs_spec = obs_spec;
  o.n_step = n_step;
  o.episode_length = 30;
  o.rivals = {kScript, kSelf, kSelf};
  learners::Buffer buffer(dqn_columns(obs_spec, /*linked=*/true), 10000);
  rollout::Collector collector(o, buffer);
  Fixed policy({0.4F, 0.3F, 0.2F, 0.1F});
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < 90; ++i) collector.step(policy, episodes);
  REQUIRE(episodes.size() == 9);
  const auto teams = std::count_if(episodes.begin(), episodes.end(),
                                   [](const rollout::Episode& e) { return e.opponent.is_self(); }) +
                     9;
  REQUIRE(buffer.size() == teams * 30);
  const at::Tensor seen = shown(buffer, learners::kObservation),
                   next = shown(buffer, learners::kNextObservation), back = shown(buffer, learners::kBack);
  std::int64_t first = 0;
  for (std::int64_t row = 0; row < buffer.size(); ++row) {
    const auto to = static_cast<std::int64_t>(back[row].item<float>());
    first += to == 0;
    if (to == 0 || n_step > 1) continue;
    REQUIRE(to <= row);
    REQUIRE(at::equal(next[row - to], seen[row]));
  }
  CHECK(first == teams);
}

TEST_CASE("frozen teams play team B, each with its own outputs, and their transitions are not stored",
          "[property]") {
  rollout::CollectorOptions o = options_for(6);
  o.rivals = {kFrozen, kFrozen, kOther, kScript, kScript, kOther};
  // Their best moves; where these are no moves for a snake, its direction says so.
  Fixed up({3.0F, 2.0F, 1.0F, 0.0F}, nets::Policy::Answer::kValues),
      right({0.0F, 1.0F, 2.0F, 3.0F}, nets::Policy::Answer::kValues);
  o.frozen = [&](int place) { return place == 0 ? &up : &right; };
  int place_of_first = -1, seen = 0;
  o.watch = [&](const rollout::Episode& e, const game::State&, const game::Actions* actions,
                const game::StepResult*) {
    place_of_first = e.opponent.frozen;
    if (actions == nullptr || !e.opponent.is_frozen()) return;
    ++seen;
    for (int i = 3; i < 6; ++i) CHECK(actions->of[i] == (place_of_first == 0 ? game::kUp : game::kRight));
  };
  learners::Buffer buffer(columns(30), 10000);
  rollout::Collector collector(o, buffer);
  Fixed policy({0.4F, 0.3F, 0.2F, 0.1F});
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < 400; ++i) collector.step(policy, episodes);
  // One batch for each range of boards.
  CHECK(up.asked == std::vector<std::int64_t>(400, 2));
  CHECK(right.asked == std::vector<std::int64_t>(800, 1));
  CHECK(seen >= 200);
  CHECK(buffer.size() == 6 * 400);
  // Who plays itself where is part of a state's shape; other opponents are those of the options.
  rollout::CollectorOptions other = o;
  other.rivals[5] = kScript;
  other.watch = {};
  rollout::Collector same(other, buffer);
  CHECK(same.restore(collector.state(), "state"));
  other.rivals[5] = kSelf;
  rollout::Collector another(other, buffer);
  const std::uint64_t before = another.hash();
  CHECK_FALSE(another.restore(collector.state(), "state"));
  CHECK(another.hash() == before);
}

TEST_CASE("boards get other opponents in the middle of a game, which counts for the one at its end",
          "[unit]") {
  rollout::CollectorOptions o = options_for(3);
  o.rivals = {kSelf, kFrozen, kScript};
  Fixed policy({0.4F, 0.3F, 0.2F, 0.1F}), up({3.0F, 2.0F, 1.0F, 0.0F}, nets::Policy::Answer::kValues);
  Fixed later = up;
  nets::Policy* frozen = &up;
  o.frozen = [&](int) { return frozen; };
  learners::Buffer buffer(columns(30), 10000);
  rollout::Collector collector(o, buffer);
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < 100; ++i) collector.step(policy, episodes);
  CHECK_FALSE(collector.deal(o.rivals));
  frozen = &later;  // another team at the same place
  CHECK(collector.deal(o.rivals));
  CHECK(collector.deal({kSelf, kScript, kFrozen}));
  for (int i = 0; i < 100; ++i) collector.step(policy, episodes);
  CHECK(up.asked == std::vector<std::int64_t>(100, 1));
  CHECK(later.asked == std::vector<std::int64_t>(100, 1));
  CHECK(policy.asked == std::vector<std::int64_t>(200, 4));
  REQUIRE(episodes.size() == 3);
  CHECK(episodes[0].opponent == kSelf);
  CHECK(episodes[1].opponent == kScript);
  CHECK(episodes[2].opponent == kFrozen);
  rollout::Collector by_games(options_for(3), buffer);
  CHECK_FALSE(by_games.deal({kScript, kScript, kScript}));
}

namespace {

// Notes its observations, and values all moves alike.
class Seeing final : public nets::Policy {
 public:
  const at::Tensor& action_values(const at::Tensor& observations) override {
    seen = observations.clone();
    out_ = at::ones({observations.size(0), 3, 4});
    return out_;
  }
  at::Tensor seen;

 private:
  at::Tensor out_;
};

}  // namespace

TEST_CASE("a frozen team sees its own side, draws numbers of its own and keeps to the mask", "[unit]") {
  const bool mask = GENERATE(false, true);
  rollout::CollectorOptions o = options_for(1);
  o.epsilon = 0;
  o.mask_fatal = mask;
  o.rivals = {kFrozen};
  Seeing policy, frozen;
  o.frozen = [&](int) { return &frozen; };
  game::Actions played{};
  o.watch = [&](const rollout::Episode&, const game::State&, const game::Actions* actions,
                const game::StepResult*) {
    if (actions != nullptr) played = *actions;
  };
  learners::Buffer buffer(columns(30), 1000);
  rollout::Collector collector(o, buffer);
  std::vector<rollout::Episode> episodes;
  int same = 0, closed = 0;
  for (int i = 0; i < 199; ++i) {
    const game::State before = collector.boards()[0];
    collector.step(policy, episodes);
    for (const int team : {0, 1}) {
      at::Tensor expected = at::empty({1, 3, 31});
      o.obs_spec.write(before, team, expected.data_ptr<float>());
      REQUIRE(at::equal((team == 0 ? policy : frozen).seen, expected));
    }
    for (int snake = 0; snake < 3; ++snake) {
      same += played.of[snake] == played.of[snake + 3];
      closed += (game::open_moves(before, snake + 3) >> played.of[snake + 3] & 1U) == 0;
    }
  }
  CHECK(same < 300);  // about a fourth of 597
  CHECK((closed == 0) == mask);
}

TEST_CASE("rewards are shared within the team, and the opponents' subtracted, by their weights", "[unit]") {
  rollout::CollectorOptions o = options_for(1), team = o, rival = o;
  team.own_reward = 0.25;
  rival.rival_reward = 0.5;
  const Played own = played_by(o, 200), shared = played_by(team, 200), against = played_by(rival, 200);
  const at::Tensor mean = own.rewards.mean(1, true).expand({200, 3});
  CHECK(at::allclose(shared.rewards, 0.25 * own.rewards + 0.75 * mean, 1e-5, 1e-6));
  CHECK_FALSE(at::allclose(shared.rewards, own.rewards));
  const at::Tensor taken = own.rewards - against.rewards;  // the same for the three
  CHECK(at::allclose(taken.select(1, 0), taken.select(1, 2), 1e-5, 1e-6));
  CHECK(taken.select(1, 0).sum().item<double>() ==
        Approx(0.5 * own.episodes[0].team_return[1] / 3).margin(1e-3));
}

TEST_CASE("with tokens, a row has the board as team A's, and graphs of it are what the snake sees",
          "[unit]") {
  game::State state;
  game::PhiloxChance chance(1, 1);
  game::reset(state, chance);
  for (int k = 0; k < 30; ++k) {
    game::Actions actions{};
    for (int team = 0; team < 2; ++team) game::act(game::Opponent::kLevel2, state, team, actions, 1, 1);
    game::step(state, actions, chance);
  }
  const play::ObsSpec plain{game::ObsKind::kWindow, 4}, obs_spec{game::ObsKind::kWindow, 4, true};
  const std::int64_t features = plain.features();
  REQUIRE(obs_spec.features() == features + play::kBoardFloats);
  for (int team = 0; team < 2; ++team) {
    const at::Tensor rows = at::empty({1, 3, obs_spec.features() + 1}),
                     window = at::empty({1, 3, features + 1});
    obs_spec.write(state, team, rows.data_ptr<float>());
    plain.write(state, team, window.data_ptr<float>());
    CHECK(rows.narrow(2, 0, features).equal(window.narrow(2, 0, features)));
    CHECK(rows.select(2, obs_spec.features()).equal(at::ones({1, 3})));
    const at::Tensor boards =
        rows.select(1, 0).narrow(1, features, play::kBoardFloats).clone(at::MemoryFormat::Contiguous);
    const game::State own = team == 0 ? state : game::with_sides_swapped(state);
    CHECK(std::memcmp(boards.data_ptr<float>(), &own, sizeof own) == 0);
    const at::Tensor graphs = rollout::board_graphs(4, boards);
    bool hidden_from_one = false;
    for (int snake = 0; snake < 3; ++snake) {
      at::Tensor expected = at::empty({game::kGraphsFloats});
      std::array<float, game::kSnakes> hidden{};
      game::write_graphs(state, team, {state.head(team * game::kTeamSize + snake), 4},
                         expected.data_ptr<float>(), hidden.data());
      CHECK(graphs[0][snake].equal(expected));
      hidden_from_one = hidden_from_one || std::count(hidden.begin(), hidden.end(), 1.0F) > 0;
    }
    CHECK(hidden_from_one);
  }
}

TEST_CASE("100 rollouts have the pinned fingerprint", "[signature]") {
  rollout::CollectorOptions o = options_for(100, 12345);
  for (int board = 1; board <= 100; ++board) o.rivals.push_back({static_cast<game::Opponent>(board % 6)});
  CHECK(played_by(o, 200).hash == 0x736537dd8f6c2844ULL);
}

TEST_CASE("a collector restored from a state plays the same games into the same replay", "[unit]") {
  const auto epsilon_min = GENERATE(0.0, 0.1);
  const bool self_play = GENERATE(false, true);
  rollout::CollectorOptions options = options_for(5);
  options.n_step = 3;
  options.episode_length = 60;
  options.epsilon_min = epsilon_min;
  if (self_play) {
    options.obs_spec.kind = game::ObsKind::kWindow;
    options.rivals = {kSelf, kSelf, kSelf, kScript, kScript};
  }
  const auto stored = self_play ? dqn_columns(options.obs_spec, /*linked=*/true) : columns(30);
  learners::Buffer first_rows(stored, 20000), second_rows(stored, 20000);
  rollout::Collector first(options, first_rows), second(options, second_rows);
  Fixed policy({0.4F, 0.3F, 0.2F, 0.1F});
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < 100; ++i) first.step(policy, episodes);
  REQUIRE(second.restore(first.state(), "state"));
  CHECK(second.hash() == first.hash());
  CHECK(second.episodes_ended() == first.episodes_ended());
  const std::int64_t before = first_rows.size();
  std::vector<rollout::Episode> of_first, of_second;
  for (int i = 0; i < 100; ++i) {
    first.step(policy, of_first);
    second.step(policy, of_second);
  }
  CHECK(second.hash() == first.hash());
  CHECK(second.epsilon() == first.epsilon());
  REQUIRE(second_rows.size() == first_rows.size() - before);
  for (std::size_t c = 0; c < first_rows.columns().size(); ++c) {
    // Boards are not numbers, so bits are compared.
    CHECK(at::equal(first_rows.column(c).narrow(0, before, second_rows.size()).view(at::kInt),
                    second_rows.column(c).narrow(0, 0, second_rows.size()).view(at::kInt)));
  }
  REQUIRE(of_second.size() == of_first.size());
  REQUIRE_FALSE(of_first.empty());
  for (std::size_t e = 0; e < of_first.size(); ++e) {
    CHECK(of_second[e].number == of_first[e].number);
    CHECK(of_second[e].started == of_first[e].started);
    CHECK(of_second[e].steps == of_first[e].steps);
    CHECK(of_second[e].snake_return[0] == of_first[e].snake_return[0]);
    CHECK(of_second[e].epsilon == of_first[e].epsilon);
    CHECK(of_second[e].opponent == of_first[e].opponent);
  }
}

TEST_CASE("a state of another layout is ignored, and impossible boards are rejected", "[unit]") {
  learners::Buffer rows(columns(30), 100);
  rollout::Collector collector(options_for(2), rows), other(options_for(3), rows);
  const std::uint64_t before = collector.hash();
  CHECK_FALSE(collector.restore(other.state(), "state"));
  CHECK(collector.hash() == before);
  // Any byte of a board may have any value; an invalid board must not be played.
  int refused = 0;
  for (std::int64_t byte = 0; byte < 256; ++byte) {
    nets::NamedTensors state = collector.state();
    for (auto& [name, tensor] : state)
      if (name == "boards") tensor.data_ptr<std::uint8_t>()[byte] ^= 0xA5;
    try {
      collector.restore(state, "state");
    } catch (const core::FileError&) {
      ++refused;
    }
  }
  CHECK(refused > 200);
}

TEST_CASE("rows that wait for their n-th reward must be boards, and only these", "[unit]") {
  rollout::CollectorOptions options = options_for(2);
  options.n_step = 3;
  options.rivals = {kSelf, kSelf};
  learners::Buffer rows(columns(30), 100);
  rollout::Collector collector(options, rows);
  Fixed policy({0.4F, 0.3F, 0.2F, 0.1F});
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < 5; ++i) collector.step(policy, episodes);
  const auto part = [](nets::NamedTensors& state, const std::string& wanted) {
    for (auto& [name, tensor] : state)
      if (name == wanted) return tensor.flatten();  // shares its memory
    throw std::logic_error(wanted);
  };
  nets::NamedTensors whole = collector.state();
  const std::int64_t seats = part(whole, "window_size").numel(), n = options.n_step;
  REQUIRE(seats == 4);
  for (std::int64_t slot = 0; slot < seats * n; ++slot) {
    nets::NamedTensors state = collector.state();
    const std::int64_t seat = slot / n, next = part(state, "window_next")[seat].item<std::int64_t>(),
                       size = part(state, "window_size")[seat].item<std::int64_t>();
    const bool waits = (next - 1 - slot % n + 2 * n) % n < size;
    REQUIRE(size == 2);
    const at::Tensor window = part(state, "window");
    auto* board = reinterpret_cast<std::uint8_t*>(window.data_ptr<float>() + slot * play::kWindowWidth);
    std::fill_n(board, sizeof(game::State), std::uint8_t{0xA5});
    CAPTURE(slot);
    if (waits) {
      CHECK_THROWS_WITH(collector.restore(state, "state"),
                        Catch::Contains("impossible values in \"window\""));
    } else {
      CHECK(collector.restore(state, "state"));
      collector.restore(whole, "state");
    }
  }
}

TEST_CASE("a state with a tensor of another type or shape is refused", "[unit]") {
  learners::Buffer rows(columns(30), 100);
  rollout::Collector collector(options_for(2), rows);
  for (std::size_t i = 0; i < collector.state().size(); ++i) {
    nets::NamedTensors state = collector.state();
    CAPTURE(state[i].first);
    const at::Tensor right = state[i].second;
    for (const at::Tensor& wrong : {right.to(at::kHalf), at::cat({right.flatten(), right.flatten()})}) {
      state[i].second = wrong;
      CHECK_THROWS_AS(collector.restore(state, "state"), core::FileError);
    }
  }
}

TEST_CASE("new boards drop the steps that waited for later rewards", "[unit]") {
  rollout::CollectorOptions o = options_for(2);
  o.n_step = 3;
  learners::Buffer rows(columns(30), 100);
  rollout::Collector collector(o, rows);
  Fixed policy({0.4F, 0.3F, 0.2F, 0.1F});
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < 4; ++i) collector.step(policy, episodes);
  CHECK(rows.size() == 4);
  collector.start_new_games(collector.count());
  for (int i = 0; i < 2; ++i) collector.step(policy, episodes);
  CHECK(rows.size() == 4);
  collector.step(policy, episodes);
  CHECK(rows.size() == 6);
}

TEST_CASE("new boards differ from those before", "[unit]") {
  learners::Buffer rows(columns(30), 100);
  rollout::Collector collector(options_for(4), rows), fresh(options_for(4), rows);
  std::vector<std::uint64_t> known;
  for (const game::State& board : fresh.boards()) known.push_back(game::hash(board));
  collector.start_new_games({50, 40, 0.25});
  CHECK(collector.episodes_ended() == 40);
  CHECK(collector.epsilon() == 0.25);
  for (const game::State& board : collector.boards())
    CHECK(std::find(known.begin(), known.end(), game::hash(board)) == known.end());
}

namespace {

// Remembers how often it was called for a snake of a game; then prefers one move.
class Counting final : public nets::Policy {
 public:
  [[nodiscard]] Answer answer() const override { return Answer::kValues; }
  [[nodiscard]] std::int64_t memory() const override { return 1; }
  const at::Tensor& action_values(const at::Tensor& observations) override {
    at::Tensor none = at::zeros({observations.size(0), 3, 1});
    return action_values_after(observations, none);
  }
  const at::Tensor& action_values_after(const at::Tensor& observations, at::Tensor& memory) override {
    asked.push_back(memory.clone());
    memory.add_(1);
    out_ = at::tensor({3.0F, 2.0F, 1.0F, 0.0F}).expand({observations.size(0), 3, 4}).contiguous();
    return out_;
  }
  std::vector<at::Tensor> asked;

 private:
  at::Tensor out_;
};

}  // namespace

TEST_CASE("a policy with memory starts each game with an empty one", "[property]") {
  rollout::CollectorOptions o = options_for(3);
  o.memory = 1;
  o.episode_length = 5;
  o.rivals = {kSelf, kFrozen, kScript};
  Counting policy, frozen;
  o.frozen = [&](int) { return &frozen; };
  learners::Buffer buffer(columns(30), 1000);
  rollout::Collector collector(o, buffer);
  std::vector<rollout::Episode> episodes;
  for (int i = 0; i < 13; ++i) {
    collector.step(policy, episodes);
    // All boards are in step, whichever teams play there.
    REQUIRE(policy.asked.back().sizes() == at::IntArrayRef({4, 3, 1}));
    CHECK(at::equal(policy.asked.back(), at::full({4, 3, 1}, i % 5)));
    CHECK(at::equal(frozen.asked.back(), at::full({1, 3, 1}, i % 5)));
  }
  // What it remembers is part of the state.
  learners::Buffer buffer2(columns(30), 1000);
  rollout::Collector again(o, buffer2);
  REQUIRE(again.restore(collector.state(), "test"));
  again.step(policy, episodes);
  CHECK(at::equal(policy.asked.back(), at::full({4, 3, 1}, 3)));
  Fixed forgetful({0.4F, 0.3F, 0.2F, 0.1F});
  CHECK_THROWS_AS(again.step(forgetful, episodes), core::Bug);
}

TEST_CASE("with the heading up, outputs are for moves ahead, back, left and right, and so is what is stored",
          "[property]") {
  // Of the moves ahead, back, left and right, in turn.
  constexpr std::array<float, 4> kWorth[3] = {{4, 1, 3, 2}, {2, 1, 4, 3}, {2, 1, 3, 4}};
  constexpr int kLeftOf[4] = {game::kLeft, game::kRight, game::kDown, game::kUp};
  // The open move of the greatest worth, and its direction.
  const auto liked = [&](const game::State& state, int snake) {
    const int ahead = state.direction(snake),
              directions[4] = {ahead, ahead ^ 1, kLeftOf[ahead], kLeftOf[ahead] ^ 1};
    const auto worth = [&](int move) {
      const bool may = (game::open_moves(state, snake) >> directions[move] & 1U) != 0;
      return may ? kWorth[state.step() % 3][static_cast<std::size_t>(move)] : 0.0F;
    };
    int best = 0;
    for (int move = 1; move < 4; ++move)
      if (worth(move) > worth(best)) best = move;
    return std::pair{best, directions[best]};
  };
  for (const int frozen : {game::Rival::kNobody, 0}) {  // against itself, a frozen copy
    std::optional<Fixed> policy(std::in_place, kWorth[0], nets::Policy::Answer::kValues);
    rollout::CollectorOptions o = options_for(1);
    o.obs_spec = {game::ObsKind::kAhead};
    o.mask_fatal = true;
    o.epsilon = o.epsilon_min = 1e-12;
    o.rivals = {{std::nullopt, frozen}};
    o.frozen = [&](int) { return &*policy; };
    std::vector<game::State> before;
    std::vector<game::Actions> made;
    o.watch = [&](const rollout::Episode&, const game::State& state, const game::Actions* actions,
                  const game::StepResult*) {
      if (actions != nullptr) made.push_back(*actions);
      before.push_back(state);
    };
    learners::Buffer buffer(dqn_columns(o.obs_spec), 1000);
    rollout::Collector collector(o, buffer);
    std::vector<rollout::Episode> episodes;
    for (std::size_t t = 0; t < 150; ++t) {
      policy.emplace(kWorth[before[t].step() % 3], nets::Policy::Answer::kValues);
      collector.step(*policy, episodes);
    }
    REQUIRE(made.size() == 150);
    const std::int64_t teams = frozen == game::Rival::kNobody ? 2 : 1;
    REQUIRE(buffer.size() == 150 * teams);
    const at::Tensor action = shown(buffer, learners::kAction), next = shown(buffer, learners::kNextMoves);
    std::array<int, 4> moves{};
    for (std::size_t t = 0; t < made.size(); ++t) {
      for (int i = 0; i < 6; ++i) {
        const auto [move, direction] = liked(before[t], i);
        REQUIRE(int{made[t].of[i]} == direction);
        if (i / 3 >= teams) continue;
        const std::int64_t row = static_cast<std::int64_t>(t) * teams + i / 3;
        const auto of_snake = [&](const at::Tensor& column) {
          return column[row].flatten().narrow(0, i % 3 * 4, 4);
        };
        ++moves[static_cast<std::size_t>(move)];
        REQUIRE(of_snake(action).argmax().item<int>() == move);
        const game::State& after = before[t + 1];
        const at::Tensor worth = at::tensor(at::ArrayRef<float>(kWorth[after.step() % 3]));
        REQUIRE((of_snake(next) * worth).argmax().item<int>() == liked(after, i).first);
      }
    }
    for (const int move : {0, 2, 3}) CHECK(moves[static_cast<std::size_t>(move)] > 50);
  }
}
