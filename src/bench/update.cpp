#include "snake_ddp/bench/update.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/bench/jobs.hpp"
#include "snake_ddp/game/state.hpp"
#include "snake_ddp/kernels/products.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/learners/registry.hpp"
#include "snake_ddp/nets/mixer.hpp"
#include "snake_ddp/replay/random_batch.hpp"
#include "snake_ddp/train/plan.hpp"

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

// Every matrix product of one update of a learner.
using Products = std::vector<Product>;
using Options = learners::LearnerOptions;
constexpr std::int64_t kTeam = game::kTeamSize, kActions = game::kMoves;

// With the first two layers folded into one, as both paths of the learner have it.
Products of_ddpg(const Options& o, std::int64_t batch) {
  Products all;
  const std::int64_t rows = batch * kTeam, hidden = o.hidden_size, actor = o.features + 1,
                     critic = o.features + 5;
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

// Likewise the map from features to the gates of an LSTM's two directions.
Products of_bicnet(const Options& o, std::int64_t batch) {
  Products all;
  const std::int64_t rows = batch * kTeam, h = o.hidden_size, gates = 4 * h, actor = o.features + 1,
                     critic = o.features + 5;
  for (const std::int64_t in : {actor, critic}) {
    const std::int64_t out = in == actor ? 4 : 1;
    const std::int64_t forwards = in == actor ? 2 : 3, backwards = in == actor ? 1 : 2;
    all.push_back(plain(2, in, 2 * gates, h, false));  // folding, online and target
    all.push_back(plain(forwards, rows, 2 * gates, in, false));
    all.push_back(plain(forwards * 4, batch, gates, h, false));  // two directions, two steps with one before
    all.push_back(plain(forwards, rows, h, 2 * h, false));
    all.push_back(plain(forwards, rows, out, h, false));
    all.push_back(plain(backwards, rows, h, out, false));
    all.push_back(plain(backwards, rows, 2 * h, h, false));
    all.push_back(plain(backwards * 4, batch, h, gates, false));
    // Gradients of the weights, from the last layer to the first.
    all.push_back(plain(1, out, h, rows, true));
    all.push_back(plain(1, 2 * h, h, rows, true));
    all.push_back(plain(2, h, gates, 2 * batch, true));
    all.push_back(plain(1, in, 2 * gates, rows, true));
    all.push_back(plain(1, h, 2 * gates, in, true));
    all.push_back(plain(1, h, in, 2 * gates, false));
  }
  all.push_back(plain(1, rows, 4, 2 * gates, false));  // dQ/da
  return all;
}

// Passes of `rows` rows through a linear layer, and its gradients from `learned` rows: the input's only above the first layer.
void add_layer(Products& all, std::int64_t in, std::int64_t out, std::int64_t forwards, std::int64_t rows,
               std::int64_t learned, bool first = false) {
  all.push_back(plain(forwards, rows, out, in, false));
  all.push_back(plain(1, in, out, learned, true));
  if (!first) all.push_back(plain(1, learned, in, out, false));
}

Products of_mlp(const Options& o, std::int64_t forwards, std::int64_t rows) {
  Products all;
  add_layer(all, o.features, o.hidden_size, forwards, rows, rows, /*first=*/true);
  add_layer(all, o.hidden_size, o.hidden_size, forwards, rows, rows);
  add_layer(all, o.hidden_size, kActions, forwards, rows, rows);
  return all;
}

// Online and target network. What mixes the values, a few numbers for each row, is no matrix product.
void add_mixer(Products& all, const Options& o, std::int64_t rows) {
  const nets::MixerShape shape{kTeam * (o.features + 1)};
  add_layer(all, shape.state, (shape.agents + 3) * shape.embed, 2, rows, rows, /*first=*/true);
}

// Windows and what is seen after them, through both networks; the steps after the burn-in are learned from.
Products of_gru(const Options& o, std::int64_t windows) {
  Products all;
  const std::int64_t h = o.hidden_size, rows = windows * kTeam, seen = o.sequence_length + 1,
                     learned = o.sequence_length - o.burn_in;
  add_layer(all, o.features, h, 2, seen * rows, learned * rows, /*first=*/true);
  add_layer(all, h, 3 * h, 2, seen * rows, learned * rows);
  all.push_back(plain(2 * seen, rows, 3 * h, h, false));
  all.push_back(plain(1, h, 3 * h, learned * rows, true));
  all.push_back(plain(learned, rows, h, 3 * h, false));
  add_layer(all, h, kActions, 2, seen * rows, learned * rows);
  return all;
}

// Which network a Q-learner has, and how often an update asks it, follows from where its batches come from.
Products of_q_learner(const Options& o, learners::Feed feed, bool mixes, std::int64_t batch) {
  if (feed == learners::Feed::kRollout) return of_mlp(o, 1, batch * kTeam);
  const std::int64_t windows = batch / o.sequence_length;
  // The online network values both observations, the target network the next one.
  Products all = feed == learners::Feed::kWindows ? of_gru(o, windows) : of_mlp(o, 3, batch * kTeam);
  if (mixes)
    add_mixer(all, o, feed == learners::Feed::kWindows ? windows * (o.sequence_length - o.burn_in) : batch);
  return all;
}

Products products_of(const Options& o, learners::Learner& learner, std::int64_t batch) {
  const learners::LearnerEntry& entry = learners::find_learner(o.algo);
  if (o.algo == "ddpg") return of_ddpg(o, batch);
  if (o.algo == "bicnet") return of_bicnet(o, batch);
  if (entry.actor) throw base::Bug(fmt::format("the update bench does not know the products of {}", o.algo));
  const bool mixes = learner.exported_critic().front().first.starts_with("mixer.");
  return of_q_learner(o, entry.feed, mixes, batch);
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
