#include "snake_ddp/bench/device.hpp"

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

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/dist/gpus.hpp"
#include "snake_ddp/encode/scaling.hpp"
#include "snake_ddp/learners/ddpg.hpp"
#include "snake_ddp/replay/random_batch.hpp"
#include "snake_ddp/rollout/fleet.hpp"
#include "snake_ddp/train/recorded.hpp"

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

// The matrix products of an update on tensors of its own: those of bench_learner.cpp, by the library.
Call products(std::int64_t rows, std::int64_t features, std::int64_t hidden, at::Device device) {
  struct Product {
    at::Tensor left, right, out;
  };
  std::vector<Product> all;
  const auto floats = at::TensorOptions(device).dtype(at::kFloat);
  const auto add = [&](int times, std::int64_t m, std::int64_t n, std::int64_t p) {
    for (; times > 0; --times)
      all.push_back({at::randn({m, p}, floats), at::randn({p, n}, floats), at::empty({m, n}, floats)});
  };
  for (const std::int64_t in : {features + 1, features + 5}) {
    const std::int64_t out = in == features + 1 ? 4 : 1;
    const int forwards = out == 4 ? 2 : 3;  // the critic is asked once more for the actor
    add(forwards, rows, hidden, in);
    add(forwards, rows, out, hidden);
    add(1, rows, hidden, out);
    add(1, out, hidden, rows);
    add(2, in, hidden, hidden);
    add(1, in, hidden, rows);
    add(1, hidden, hidden, in);
    add(1, hidden, in, hidden);
  }
  add(1, rows, hidden, 1);
  add(1, rows, 4, hidden);
  return [all = std::move(all)]() mutable {
    for (Product& p : all) at::mm_out(p.out, p.left, p.right);
  };
}

double recorded_seconds(double seconds, at::Device device, const Call& call) {
  train::Recorded recorded(device.is_cuda() ? train::cuda_graphs(device) : train::MakeRecording{});
  return seconds_of(seconds, device, [&] { recorded.run(0, call); });
}

}  // namespace

at::Device device_named(const std::string& name) {
  if (name == "pieces") return at::kCPU;
  if (dist::visible_gpus() == 0) throw base::UsageError("--device cuda, but " + dist::why_no_gpu());
  if (!rollout::have_kernels())
    throw base::UsageError(
        "--device cuda, but this build has no kernels: CMake found no nvcc; install the wheels of "
        "launch/requirements-cuda.txt and build again");
  return {at::kCUDA, 0};
}

std::vector<Row> measure_device_game(double seconds, std::int64_t boards, at::Device device) {
  const OwnStream stream(device);
  const double part = seconds / 4;
  std::vector<Row> rows;
  const play::Sight sight{encode::ObsKind::k30, encode::feature_scaling(encode::ObsKind::k30)};
  for (const bool observed : {false, true}) {
    rollout::Wanderers game(boards, 1, observed ? &sight : nullptr, device);
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
  return rows;
}

std::vector<Row> measure_device_update(double seconds, const std::vector<std::int64_t>& batch_sizes,
                                       at::Device device) {
  const c10::NoGradGuard no_grad;
  const OwnStream stream(device);
  std::vector<Row> rows;
  for (const std::int64_t batch_size : batch_sizes) {
    learners::LearnerOptions options;
    options.device = device;
    options.library_products = true;
    learners::Ddpg learner(options);
    const replay::Batch batch = replay::random_batch(learner.columns(), batch_size, device);
    const auto update = [&] { learner.update(batch, [](at::Tensor&) {}); };
    const double eager = seconds_of(seconds / 3, device, update),
                 recorded = recorded_seconds(seconds / 3, device, update),
                 alone = recorded_seconds(
                     seconds / 3, device,
                     products(batch_size * 3, options.features, options.hidden_size, device));
    rows.push_back({fmt::format("device_ddpg_update_batch_{}", batch_size), recorded * 1e6, "us", alone * 1e6,
                    recorded / alone});
    rows.push_back({fmt::format("device_ddpg_update_eager_batch_{}", batch_size), eager * 1e6, "us",
                    recorded * 1e6, eager / recorded});
  }
  return rows;
}

}  // namespace snake_ddp::bench
