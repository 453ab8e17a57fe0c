#include "snake_ddp/bench/update.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "snake_ddp/bench/jobs.hpp"
#include "snake_ddp/kernels/products.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/learners/registry.hpp"
#include "snake_ddp/replay/random_batch.hpp"
#include "snake_ddp/train/plan.hpp"
#include "update_products.hpp"

namespace snake_ddp::bench {
namespace {

using Clock = std::chrono::steady_clock;

// The median over repetitions of a call, in microseconds.
double median_us(double seconds, const std::function<void()>& call) {
  for (int i = 0; i < 5; ++i) call();
  std::vector<double> times;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end || times.size() < 5) {
    const auto begin = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

// Microseconds of all products, each alone and with its operands in cache: by the faster routine, and by the library's.
struct ProductsTime {
  double fastest = 0, library = 0;
};

ProductsTime time_of(double seconds, const std::vector<Product>& products) {
  ProductsTime sum;
  const double share = seconds / static_cast<double>(2 * products.size());
  for (const Product& p : products) {
    const at::Tensor stored = p.left_transposed ? at::randn({p.p, p.m}) : at::randn({p.m, p.p}),
                     left = p.left_transposed ? stored.t() : stored, right = at::randn({p.p, p.n});
    at::Tensor out = at::empty({p.m, p.n});
    const kernels::MatrixView view{stored.data_ptr<float>(), left.stride(0), left.stride(1)};
    const auto by_ours = [&] {
      kernels::multiply(p.m, p.n, p.p, view, {right.data_ptr<float>(), p.n, 1}, out.data_ptr<float>(), p.n);
    };
    const auto by_library = [&] { at::mm_out(out, left, right); };
    const double ours = median_us(share, by_ours), library = median_us(share, by_library);
    sum.fastest += static_cast<double>(p.times) * std::min(ours, library);
    sum.library += static_cast<double>(p.times) * library;
  }
  return sum;
}

}  // namespace

std::vector<Row> measure_update(double seconds, std::vector<std::int64_t> batch_sizes,
                                const std::string& config_file, const std::string& algo) {
  const c10::NoGradGuard no_grad;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  nlohmann::json run = run_settings(config_file);
  if (!algo.empty()) run["algo"] = algo;
  const train::TrainOptions settings = options_from(run);
  const learners::LearnerOptions options = train::learner_options(train::Plan(settings), 1, at::kCPU);
  if (batch_sizes.empty()) batch_sizes = {settings.batch_size};
  std::vector<Row> rows;
  for (const std::int64_t batch_size : batch_sizes) {
    const auto learner = learners::make_learner(options);
    const replay::Batch batch = replay::random_batch(learner->columns(), batch_size);
    const double update = median_us(seconds, [&] { learner->update(batch, [](at::Tensor&) {}); });
    const ProductsTime alone = time_of(seconds, products_of(options, *learner, batch_size));
    rows.push_back({fmt::format("{}_update_batch_{}", options.algo, batch_size), update, "us", alone.fastest,
                    update / alone.fastest});
    rows.push_back({fmt::format("matrix_products_batch_{}", batch_size), alone.fastest, "us", alone.library,
                    alone.fastest / alone.library});
  }
  at::set_num_threads(threads);
  return rows;
}

}  // namespace snake_ddp::bench
