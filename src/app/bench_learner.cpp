#include "snake_ddp/app/bench_learner.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "snake_ddp/learners/ddpg.hpp"

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

struct Product {
  int times;
  at::Tensor left, right, out;
};

// Every matrix product of one update, on tensors of their own.
std::vector<Product> products_of_update(std::int64_t rows, std::int64_t features, std::int64_t hidden) {
  std::vector<Product> all;
  const auto add = [&](int times, const at::Tensor& left, const at::Tensor& right) {
    all.push_back({times, left, right, at::mm(left, right)});
  };
  const auto random = [](std::int64_t r, std::int64_t c) { return at::randn({r, c}); };
  const std::int64_t actor = features + 1, critic = features + 5;
  for (const std::int64_t in : {actor, critic}) {
    const std::int64_t out = in == actor ? 4 : 1;
    const int forwards =
        in == actor ? 2 : 3;  // target and online; the critic is asked once more for the actor
    add(forwards, random(rows, in), random(hidden, in).t());
    add(forwards, random(rows, hidden), random(out, hidden).t());
    add(2, random(hidden, hidden), random(hidden, in));                // folding, online and target
    add(1, random(rows, hidden).t(), random(rows, in));                // gradient of the folded map
    add(1, random(hidden, in), random(hidden, in).t());                // of the second layer
    add(1, random(hidden, hidden).t(), random(hidden, in));            // of the first
    add(1, random(rows, out).t(), random(rows, hidden));               // of the last
    add(in == actor ? 1 : 2, random(rows, out), random(out, hidden));  // back through the last
  }
  add(1, random(rows, hidden), random(hidden, 4));  // dQ/da
  return all;
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
    const double alone = median_us(seconds, [&] {
      for (const Product& p : products) {
        at::Tensor out = p.out;
        for (int i = 0; i < p.times; ++i) at::mm_out(out, p.left, p.right);
      }
    });
    rows.push_back({fmt::format("ddpg update, batch {}", batch_size), update, "us", alone, update / alone});
  }
  at::set_num_threads(threads);
  return rows;
}

}  // namespace snake_ddp::app
