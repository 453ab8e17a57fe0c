#include "snake_ddp/bench/update.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "snake_ddp/kernels/products.hpp"
#include "snake_ddp/learners/ddpg.hpp"
#include "snake_ddp/replay/random_batch.hpp"

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

// One product of the update on tensors of its own: by our routine and by the library's.
struct Product {
  std::int64_t times;
  std::function<void()> ours, library;
};

Product plain(std::int64_t times, std::int64_t m, std::int64_t n, std::int64_t p, bool left_transposed) {
  const at::Tensor left = left_transposed ? at::randn({p, m}) : at::randn({m, p}), right = at::randn({p, n});
  at::Tensor out = at::empty({m, n});
  const kernels::MatrixView view = left_transposed ? kernels::MatrixView{left.data_ptr<float>(), 1, m}
                                                   : kernels::MatrixView{left.data_ptr<float>(), p, 1};
  return {times,
          [=] {
            kernels::multiply(m, n, p, view, {right.data_ptr<float>(), n, 1}, out.data_ptr<float>(), n);
          },
          [=]() mutable { at::mm_out(out, left_transposed ? left.t() : left, right); }};
}

// Every matrix product of one update with the first two layers folded into one, as both paths of the learner have it.
std::vector<Product> products_of_update(std::int64_t rows, std::int64_t features, std::int64_t hidden) {
  std::vector<Product> all;
  const std::int64_t actor = features + 1, critic = features + 5;
  for (const std::int64_t in : {actor, critic}) {
    const std::int64_t out = in == actor ? 4 : 1;
    // Forward for target and online network; the critic is asked once more for the actor.
    const std::int64_t forwards = in == actor ? 2 : 3;
    all.push_back(plain(forwards, rows, hidden, in, false));
    all.push_back(plain(forwards, rows, out, hidden, false));
    all.push_back(plain(1, rows, hidden, out, false));   // back through the last layer
    all.push_back(plain(1, out, hidden, rows, true));    // gradient of the last layer
    all.push_back(plain(2, in, hidden, hidden, false));  // folding, online and target
    all.push_back(plain(1, in, hidden, rows, true));     // gradient of the folded map
    all.push_back(plain(1, hidden, hidden, in, true));   // of the second layer
    all.push_back(plain(1, hidden, in, hidden, false));  // of the first
  }
  all.push_back(plain(1, rows, hidden, 1, false));  // dQ/da, and on to the actor's four outputs
  all.push_back(plain(1, rows, 4, hidden, false));
  return all;
}

// Microseconds of all products, each alone and with its operands in cache: by the faster routine, and by the library's.
struct ProductsTime {
  double fastest = 0, library = 0;
};

ProductsTime time_of(double seconds, const std::vector<Product>& products) {
  ProductsTime sum;
  const double share = seconds / static_cast<double>(2 * products.size());
  for (const Product& p : products) {
    const double ours = median_us(share, p.ours), library = median_us(share, p.library);
    sum.fastest += static_cast<double>(p.times) * std::min(ours, library);
    sum.library += static_cast<double>(p.times) * library;
  }
  return sum;
}

}  // namespace

std::vector<Row> measure_update(double seconds, const std::vector<std::int64_t>& batch_sizes) {
  const c10::NoGradGuard no_grad;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  std::vector<Row> rows;
  for (const std::int64_t batch_size : batch_sizes) {
    learners::LearnerOptions options;
    learners::Ddpg learner(options);
    const replay::Batch batch = replay::random_batch(learner.columns(), batch_size);
    const double update = median_us(seconds, [&] { learner.update(batch, [](at::Tensor&) {}); });
    const ProductsTime alone =
        time_of(seconds, products_of_update(batch_size * 3, options.features, options.hidden_size));
    rows.push_back({fmt::format("ddpg_update_batch_{}", batch_size), update, "us", alone.fastest,
                    update / alone.fastest});
    rows.push_back({fmt::format("matrix_products_batch_{}", batch_size), alone.fastest, "us", alone.library,
                    alone.fastest / alone.library});
  }
  at::set_num_threads(threads);
  return rows;
}

}  // namespace snake_ddp::bench
