#include "benches.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDAGuard.h>
#endif

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include "dist/context.hpp"
#include "dist/gpus.hpp"
#include "jobs.hpp"
#include "learners/buffer.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "nets/backend.hpp"
#include "nets/device_work.hpp"
#include "nets/precision.hpp"
#include "products.hpp"
#include "rollout/collector.hpp"
#include "rollout/random_boards.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/curriculum.hpp"
#include "snake_ddp/play/board_step.hpp"
#include "train/graph_capture.hpp"
#include "train/plan.hpp"

namespace snake_ddp::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Call = std::function<void()>;

void wait_for(at::Device device) {
#ifdef SD_HAVE_CUDA
  if (device.is_cuda()) c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
#endif
  (void)device;
}

/// Seconds of one call, queued one behind the other; the best of ten spans.
double seconds_of(double seconds, at::Device device, const Call& call) {
  for (int i = 0; i < 20; ++i) call();
  wait_for(device);
  double best = 0;
  std::int64_t calls = 1;
  for (int span = 0; span < 10; ++span) {
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < calls; ++i) call();
    wait_for(device);
    const double took = std::chrono::duration<double>(Clock::now() - begin).count(),
                 each = took / static_cast<double>(calls);
    best = span == 0 ? each : std::min(best, each);
    calls = std::clamp<std::int64_t>(static_cast<std::int64_t>(seconds / 10 / each), 1, 100000);
  }
  return best;
}

// Recordings need a stream that is not the default one.
struct OwnStream {
  explicit OwnStream(at::Device device) {
#ifdef SD_HAVE_CUDA
    if (device.is_cuda()) guard.emplace(c10::cuda::getStreamFromPool(false, device.index()));
#endif
    (void)device;
  }
#ifdef SD_HAVE_CUDA
  std::optional<c10::cuda::CUDAStreamGuard> guard{};
#endif
};

// The matrix products of an update, each on tensors of its own.
Call products_alone(const std::vector<Product>& products, at::Device device) {
  struct Operands {
    at::Tensor left, right, out;
  };
  std::vector<Operands> all;
  const auto floats = at::TensorOptions(device).dtype(at::kFloat);
  for (const Product& p : products) {
    for (std::int64_t k = 0; k < p.times; ++k)
      all.push_back({p.left_transposed ? at::randn({p.p, p.m}, floats).t() : at::randn({p.m, p.p}, floats),
                     at::randn({p.p, p.n}, floats), at::empty({p.m, p.n}, floats)});
  }
  return [all = std::move(all)]() mutable {
    for (Operands& o : all) at::mm_out(o.out, o.left, o.right);
  };
}

double recorded_seconds(double seconds, at::Device device, const Call& call) {
  train::GraphCapture recorded(device.is_cuda() ? train::cuda_graphs(device) : train::MakeDeviceGraph{});
  return seconds_of(seconds, device, [&] { recorded.run(call); });
}

}  // namespace

at::Device device_named(const std::string& name) {
  if (name == "pieces") return at::kCPU;
  if (dist::visible_gpus() == 0) throw core::UsageError("--device cuda: " + dist::why_no_gpu());
  if (!nets::kHaveKernels)
    throw core::UsageError(
        "--device cuda, but this build has no kernels: CMake found no nvcc; install the wheels of "
        "launch/requirements-cuda.txt and build again");
  return {at::kCUDA, 0};
}

namespace {

// A step of games as training plays them: the network's answers, both teams' moves, rewards, transitions into replay, and what
// is seen then.
struct WholeStep {
  const char* algo;
  game::ObsKind kind;
  const char *obs, *opponent;
};
constexpr WholeStep kWholeSteps[] = {{"ddpg", game::ObsKind::k30, "30", "level2"},
                                     {"dqn", game::ObsKind::kView, "view", "territory"}};

Row whole_step(double seconds, std::int64_t boards, at::Device device, const WholeStep& w) {
  rollout::CollectorOptions options;
  options.num_envs = boards;
  options.obs_spec = {w.kind};
  options.n_step = 3;
  options.mask_fatal = true;
  learners::LearnerOptions of_learner;
  of_learner.algo = w.algo;
  of_learner.features = options.obs_spec.features();
  of_learner.backend = &nets::aten_backend();
  of_learner.device = device;
  const auto learner = learners::make_learner(of_learner);
  const std::vector<learners::Column> columns = rollout::with_boards(learner->columns(), options.obs_spec);
  options.rivals.assign(static_cast<std::size_t>(boards), {game::try_opponent(w.opponent).value()});
  learners::Buffer replay(columns, boards * options.n_step, device);
  rollout::Collector collector(options, replay, nullptr, 20);
  const double step = recorded_seconds(seconds, device, [&] { collector.step(learner->policy()); });

  // Boards are read and written; a row of the window, one of replay, and what is seen are written.
  std::int64_t floats = play::kAlignedWindowWidth + collector.observations().numel() / boards;
  for (std::size_t c = 0; c < columns.size(); ++c) floats += replay.column(c).size(1);
  const at::Tensor from = at::zeros({boards, play::kBoardFloats}, collector.observations().options());
  at::Tensor to = at::empty_like(from), written = at::empty({boards, floats}, from.options());
  const double bound = seconds_of(seconds, device, [&] {
    to.copy_(from);
    written.zero_();
  });
  const double all = static_cast<double>(boards);
  return {fmt::format("device_step_{}_{}_{}_{}_boards", w.algo, w.obs, w.opponent, boards), all / step,
          "steps/s", all / bound, bound / step};
}

}  // namespace

std::vector<Row> measure_device_game(double seconds, const std::vector<std::int64_t>& board_counts,
                                     at::Device device) {
  const c10::NoGradGuard no_grad;
  const OwnStream stream(device);
  const double part = seconds / static_cast<double>(8 * board_counts.size());
  std::vector<Row> rows;
  const play::ObsSpec obs_spec{game::ObsKind::k30};
  for (const std::int64_t boards : board_counts) {
    for (const bool observed : {false, true}) {
      rollout::RandomBoards game(boards, 1, observed ? &obs_spec : nullptr, device);
      const double step = seconds_of(part, device, [&] { game.step(); });
      at::Tensor copy = at::empty_like(game.boards()),
                 seen = observed ? at::empty_like(game.observations()) : at::Tensor();
      const double bound = seconds_of(part, device, [&] {
        copy.copy_(game.boards());
        if (observed) seen.zero_();
      });
      const double all = static_cast<double>(boards);
      rows.push_back(
          {fmt::format("device_game_step{}_{}_boards", observed ? "_and_observe_30" : "_random", boards),
           all / step, "steps/s", all / bound, bound / step});
    }
    for (const WholeStep& w : kWholeSteps) rows.push_back(whole_step(part, boards, device, w));
  }
  return rows;
}

std::vector<Row> measure_device_update(double seconds, std::vector<std::int64_t> batch_sizes,
                                       at::Device device, const std::string& config_file,
                                       const std::string& algo, const std::string& products) {
  const c10::NoGradGuard no_grad;
  const OwnStream stream(device);
  nlohmann::json run = run_settings(config_file);
  if (!algo.empty()) run["algo"] = algo;
  if (!products.empty()) run["products"] = products;
  const train::TrainOptions settings = options_from(run);
  if (!learners::find_learner(settings.algo).cuda_graphs)
    throw core::UsageError(fmt::format(
        "bench update --device: --algo {} has no updates that can be recorded; measure it with --device cpu",
        settings.algo));
  const train::Plan plan(settings);
  nets::set_product_precision(plan.precision);
  learners::LearnerOptions options = train::learner_options(plan, device);
  options.backend = &nets::aten_backend();
  if (batch_sizes.empty()) batch_sizes = {settings.batch_size};
  const std::string what =
      fmt::format("device_{}{}_update{}", options.algo, options.layer_norm ? "_layer_norm" : "",
                  plan.precision == nets::Precision::kFloat32 ? "" : "_" + settings.products);
  std::vector<Row> rows;
  for (const std::int64_t batch_size : batch_sizes) {
    const auto learner = learners::make_learner(options);
    const learners::Batch batch = learners::random_batch(learner->columns(), batch_size, device);
    const auto update = [&] { learner->update(batch, [](at::Tensor&) {}); };
    const double eager = seconds_of(seconds / 3, device, update),
                 recorded = recorded_seconds(seconds / 3, device, update),
                 alone = recorded_seconds(seconds / 3, device,
                                          products_alone(products_of(options, *learner, batch_size), device));
    rows.push_back(
        {fmt::format("{}_batch_{}", what, batch_size), recorded * 1e6, "us", alone * 1e6, recorded / alone});
    rows.push_back({fmt::format("{}_eager_batch_{}", what, batch_size), eager * 1e6, "us", recorded * 1e6,
                    eager / recorded});
  }
  nets::set_product_precision(nets::Precision::kFloat32);
  return rows;
}

}  // namespace snake_ddp::bench
