#include "snake_ddp/app/bench_learner.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "snake_ddp/learners/ddpg.hpp"
#include "snake_ddp/nets/products.hpp"

namespace snake_ddp::app {
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
  const nets::MatrixView view = left_transposed ? nets::MatrixView{left.data_ptr<float>(), 1, m}
                                                : nets::MatrixView{left.data_ptr<float>(), p, 1};
  return {times,
          [=] {
            nets::multiply(m, n, p, view, {right.data_ptr<float>(), n, 1}, out.data_ptr<float>(), n);
          },
          [=]() mutable { at::mm_out(out, left_transposed ? left.t() : left, right); }};
}

Product last_layer(std::int64_t times, std::int64_t rows, std::int64_t width, std::int64_t outputs) {
  const at::Tensor hidden = at::randn({rows, width}), weight = at::randn({outputs, width}),
                   bias = at::randn({outputs});
  at::Tensor out = at::empty({rows, outputs});
  return {times,
          [=] {
            nets::relu_and_last_layer(rows, width, outputs, hidden.data_ptr<float>(),
                                      weight.data_ptr<float>(), bias.data_ptr<float>(),
                                      out.data_ptr<float>());
          },
          [=]() mutable { at::mm_out(out, hidden, weight.t()); }};
}

Product last_layer_back(std::int64_t times, std::int64_t rows, std::int64_t width, std::int64_t outputs,
                        bool weights) {
  const at::Tensor hidden = at::randn({rows, width}), weight = at::randn({outputs, width});
  const at::Tensor d_out = at::randn({rows, outputs});
  at::Tensor d_hidden = at::empty_like(hidden), d_weight = at::empty_like(weight),
             d_bias = at::empty({outputs});
  return {times,
          [=] {
            nets::last_layer_backward(
                rows, width, outputs, hidden.data_ptr<float>(), weight.data_ptr<float>(),
                d_out.data_ptr<float>(), d_hidden.data_ptr<float>(),
                weights ? d_weight.data_ptr<float>() : nullptr, weights ? d_bias.data_ptr<float>() : nullptr);
          },
          [=]() mutable {
            at::mm_out(d_hidden, d_out, weight);
            if (weights) at::mm_out(d_weight, d_out.t(), hidden);
          }};
}

// Every matrix product of one update.
std::vector<Product> products_of_update(std::int64_t rows, std::int64_t features, std::int64_t hidden) {
  std::vector<Product> all;
  const std::int64_t actor = features + 1, critic = features + 5;
  for (const std::int64_t in : {actor, critic}) {
    const std::int64_t out = in == actor ? 4 : 1;
    const std::int64_t forwards =
        in == actor ? 2 : 3;  // target and online; the critic is asked once more for the actor
    all.push_back(plain(forwards, rows, hidden, in, false));
    all.push_back(last_layer(forwards, rows, hidden, out));
    all.push_back(last_layer_back(1, rows, hidden, out, true));
    all.push_back(plain(2, in, hidden, hidden, false));  // folding, online and target
    all.push_back(plain(1, in, hidden, rows, true));     // gradient of the folded map
    all.push_back(plain(1, hidden, hidden, in, true));   // of the second layer
    all.push_back(plain(1, hidden, in, hidden, false));  // of the first
  }
  all.push_back(last_layer_back(1, rows, hidden, 1, false));  // dQ/da, and on to the actor's four outputs
  const at::Tensor d_hidden = at::randn({rows, hidden}), map = at::randn({4, hidden});
  at::Tensor d_action = at::empty({rows, 4});
  const auto action = [=]() mutable { at::mm_out(d_action, d_hidden, map.t()); };
  all.push_back({1, action, action});
  return all;
}

double time_of(double seconds, const std::vector<Product>& products, bool ours) {
  return median_us(seconds, [&] {
    for (const Product& p : products) {
      for (std::int64_t i = 0; i < p.times; ++i) (ours ? p.ours : p.library)();
    }
  });
}

}  // namespace

std::vector<BenchRow> bench_update(double seconds, const std::vector<std::int64_t>& batch_sizes) {
  const c10::NoGradGuard no_grad;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  std::vector<BenchRow> rows;
  for (const std::int64_t batch_size : batch_sizes) {
    learners::LearnerOptions options;
    learners::Ddpg learner(options);
    replay::Batch batch;
    for (const replay::Column& column : learner.columns()) {
      std::vector<std::int64_t> sizes = {batch_size};
      sizes.insert(sizes.end(), column.shape.begin(), column.shape.end());
      batch.columns.push_back(at::rand(sizes));
    }
    for (const auto c : {learners::kObservation, learners::kNextObservation})
      batch.columns[c].select(2, -1).fill_(1.0F);
    const double update = median_us(seconds, [&] { learner.update(batch, [](at::Tensor&) {}); });
    const std::vector<Product> products =
        products_of_update(batch_size * 3, options.features, options.hidden_size);
    const double alone = time_of(seconds, products, true), library = time_of(seconds, products, false);
    rows.push_back({fmt::format("ddpg_update_batch_{}", batch_size), update, "us", alone, update / alone});
    rows.push_back(
        {fmt::format("matrix_products_batch_{}", batch_size), alone, "us", library, alone / library});
  }
  at::set_num_threads(threads);
  return rows;
}

}  // namespace snake_ddp::app
