// The inner loops one by one, to compare two builds with compare.sh. Their bounds are in `snake_ddp bench`.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/core/GradMode.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "snake_ddp/agents/opponents.hpp"
#include "snake_ddp/base/random.hpp"
#include "snake_ddp/encode/observation.hpp"
#include "snake_ddp/files/state_dict.hpp"
#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/kernels/products.hpp"
#include "snake_ddp/learners/ddpg.hpp"
#include "snake_ddp/replay/buffer.hpp"
#include "snake_ddp/replay/random_batch.hpp"

namespace {

using namespace snake_ddp;
using benchmark::State;

constexpr std::size_t kBoards = 1024;
constexpr std::int64_t kHidden = 256, kFeatures = 30;

// ---- game, observations, opponents

// Boards in play, and random moves that cost almost nothing.
class Boards {
 public:
  Boards() {
    for (std::size_t b = 0; b < kBoards; ++b) deal(b);
    for (int t = 0; t < 100; ++t) step();
  }
  void step() {
    for (std::size_t b = 0; b < kBoards; ++b) {
      moves_ = moves_ * 6364136223846793005ULL + 1442695040888963407ULL;
      game::Actions actions;
      for (unsigned i = 0; i < game::kSnakes; ++i)
        actions.of[i] = static_cast<std::uint8_t>(moves_ >> (40 + 2 * i) & 3U);
      game::PhiloxChance chance(1, games_of[b]);
      if (game::step(states[b], actions, chance).done) deal(b);
    }
  }
  std::vector<game::State> states = std::vector<game::State>(kBoards);
  std::vector<std::uint64_t> games_of = std::vector<std::uint64_t>(kBoards);

 private:
  void deal(std::size_t b) {
    games_of[b] = games_++;
    game::PhiloxChance chance(1, games_of[b]);
    game::reset(states[b], chance);
  }
  std::uint64_t games_ = 0, moves_ = 1;
};

void count_boards(State& state) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kBoards));
}

void game_step(State& state) {
  Boards boards;
  for (auto _ : state) {
    boards.step();
    benchmark::DoNotOptimize(boards.states.data());
  }
  count_boards(state);
}
BENCHMARK(game_step);

void observe(State& state, encode::ObsKind kind) {
  Boards boards;
  const auto width = static_cast<std::size_t>(game::kTeamSize * encode::obs_size(kind));
  std::vector<float> out(kBoards * width);
  for (auto _ : state) {
    state.PauseTiming();
    boards.step();
    state.ResumeTiming();
    for (std::size_t b = 0; b < kBoards; ++b)
      encode::observe(kind, boards.states[b], 0, out.data() + b * width);
    benchmark::DoNotOptimize(out.data());
  }
  count_boards(state);
}
BENCHMARK_CAPTURE(observe, features_26, encode::ObsKind::k26);
BENCHMARK_CAPTURE(observe, features_30, encode::ObsKind::k30);

void opponent(State& state, agents::Opponent who) {
  Boards boards;
  game::Actions actions{};
  for (auto _ : state) {
    state.PauseTiming();
    boards.step();
    state.ResumeTiming();
    for (std::size_t b = 0; b < kBoards; ++b) {
      agents::act(who, boards.states[b], 1, actions, 1, boards.games_of[b]);
      benchmark::DoNotOptimize(actions);
    }
  }
  count_boards(state);
}
BENCHMARK_CAPTURE(opponent, level0, agents::Opponent::kLevel0);
BENCHMARK_CAPTURE(opponent, level1, agents::Opponent::kLevel1);
BENCHMARK_CAPTURE(opponent, level2, agents::Opponent::kLevel2);
BENCHMARK_CAPTURE(opponent, level3, agents::Opponent::kLevel3);
BENCHMARK_CAPTURE(opponent, level4, agents::Opponent::kLevel4);
BENCHMARK_CAPTURE(opponent, evasion, agents::Opponent::kEvasion);

// ---- replay

void replay_sample(State& state) {
  constexpr std::int64_t kRows = 100'000;
  const learners::Ddpg learner{learners::LearnerOptions()};
  replay::Buffer buffer(learner.columns(), kRows);
  const std::vector<float> row(1024, 0.5F);
  const std::vector<const float*> values(buffer.columns().size(), row.data());
  for (std::int64_t i = 0; i < kRows; ++i) buffer.append(values);
  replay::Batch batch;
  std::uint64_t draw = 0;
  for (auto _ : state) {
    buffer.sample(state.range(0), 1, draw++, batch);
    benchmark::DoNotOptimize(batch.columns.front().data_ptr());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(replay_sample)->Arg(128)->Arg(1024);

// ---- nets

// out = left * right, both as stored; the transposed one is the gradient of a layer's weights.
void product(State& state, bool left_transposed) {
  const std::int64_t m = state.range(0), n = state.range(1), p = state.range(2);
  const at::Tensor left = left_transposed ? at::randn({p, m}) : at::randn({m, p}), right = at::randn({p, n});
  const at::Tensor out = at::empty({m, n});
  const kernels::MatrixView view = left_transposed ? kernels::MatrixView{left.data_ptr<float>(), 1, m}
                                                   : kernels::MatrixView{left.data_ptr<float>(), p, 1};
  for (auto _ : state) {
    kernels::multiply(m, n, p, view, {right.data_ptr<float>(), n, 1}, out.data_ptr<float>(), n);
    benchmark::DoNotOptimize(out.data_ptr());
  }
  state.counters["flop/s"] =
      benchmark::Counter(2.0 * static_cast<double>(m * n * p), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(product, forward, false)->Args({384, kHidden, kFeatures + 1});
BENCHMARK_CAPTURE(product, folding, false)->Args({kFeatures + 1, kHidden, kHidden});
BENCHMARK_CAPTURE(product, weight_gradient, true)->Args({kFeatures + 1, kHidden, 384});

void act(State& state) {
  learners::Ddpg learner{learners::LearnerOptions()};
  at::Tensor observations = at::rand({state.range(0), 3, kFeatures + 1});
  observations.select(2, kFeatures).fill_(1.0F);
  for (auto _ : state) benchmark::DoNotOptimize(learner.policy().action_values(observations).data_ptr());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(act)->Arg(1)->Arg(256);

// ---- learners

void ddpg_update(State& state) {
  learners::Ddpg learner{learners::LearnerOptions()};
  const replay::Batch batch = replay::random_batch(learner.columns(), state.range(0));
  for (auto _ : state) learner.update(batch, [](at::Tensor&) {});
}
BENCHMARK(ddpg_update)->Arg(128)->Arg(512)->Arg(1024)->Unit(benchmark::kMicrosecond);

void adam_step(State& state) {
  learners::Ddpg learner{learners::LearnerOptions()};
  nets::FlatParameters parameters = learner.critic().parameters().like(), gradients = parameters.like();
  learners::Adam adam(parameters, 3e-4, false);
  for (auto _ : state) {
    state.PauseTiming();
    gradients.flat().fill_(1e-3F);  // a step overwrites it
    state.ResumeTiming();
    adam.step(parameters.flat(), gradients.flat(), 1.0);
  }
}
BENCHMARK(adam_step);

// ---- files

void save_actor(State& state) {
  learners::Ddpg learner{learners::LearnerOptions()};
  std::string folder = (std::filesystem::temp_directory_path() / "snake_ddp.loops.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make " + folder);
  for (auto _ : state) files::save_state_dict(folder + "/actor_1.pth", learner.exported_actor());
  std::filesystem::remove_all(folder);
}
BENCHMARK(save_actor)->Unit(benchmark::kMicrosecond);

}  // namespace

int main(int argc, char** argv) {
  const c10::NoGradGuard no_grad;
  at::set_num_threads(1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
