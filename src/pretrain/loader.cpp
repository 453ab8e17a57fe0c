#include "pretrain/loader.hpp"

#include <fmt/format.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/random.hpp"
#include "snake_ddp/core/wait.hpp"
#include "snake_ddp/game/snake_graph.hpp"

namespace snake_ddp::pretrain {
namespace {

constexpr int kSnakes = game::kSnakes;

// This many of the snakes, drawn without replacement.
void mask_some(double ratio, core::RandomStream& random, float* masked) {
  const int count = std::clamp(static_cast<int>(std::lround(ratio * kSnakes)), 1, kSnakes - 1);
  std::array<int, kSnakes> order{0, 1, 2, 3, 4, 5};
  for (int k = 0; k < count; ++k) {
    std::swap(order[static_cast<std::size_t>(k)],
              order[static_cast<std::size_t>(k) + random.below(static_cast<std::uint32_t>(kSnakes - k))]);
    masked[order[static_cast<std::size_t>(k)]] = 1.0F;
  }
}

}  // namespace

Batch make_batch(const BoardSet& set, const std::vector<std::int64_t>& rows, const SampleOptions& o,
                 bool pinned) {
  const auto size = static_cast<std::int64_t>(rows.size());
  const auto options = at::TensorOptions().dtype(at::kFloat).pinned_memory(pinned);
  const auto graphs = [&] {
    return at::zeros({size, kSnakes, game::kGraphNodes, game::kNodeFeatures}, options);
  };
  Batch batch{graphs(), o.view_radius > 0 ? graphs() : at::Tensor(), at::zeros({size, kSnakes}, options),
              at::zeros({size, kSnakes}, options), at::zeros({size}, options)};
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(i)];
    if (row == kNoSample) continue;
    const game::State& board = set.board(row);
    core::RandomStream random(o.seed, static_cast<std::uint64_t>(row), core::Purpose::kMask,
                              static_cast<std::uint32_t>(o.epoch) * 8U);
    float* masked = batch.masked.data_ptr<float>() + i * kSnakes;
    float* hidden = batch.hidden.data_ptr<float>() + i * kSnakes;
    float* seen = batch.seen.data_ptr<float>() + i * game::kGraphsFloats;
    batch.weight.data_ptr<float>()[i] = 1.0F;
    int team = 0;
    game::Viewer eye;
    std::array<float, kSnakes> absent;  // of the whole board
    if (o.view_radius > 0) {
      const int looks = static_cast<int>(random.below(kSnakes + (o.also_unhidden ? 1 : 0)));
      team = looks < kSnakes ? looks / game::kTeamSize : 0;
      if (looks < kSnakes) eye = {board.head(looks), static_cast<int>(o.view_radius)};
      game::write_graphs(board, team, {}, batch.whole.data_ptr<float>() + i * game::kGraphsFloats,
                         absent.data());
    }
    game::write_graphs(board, team, eye, seen, hidden);
    if (o.view_radius > 0) {
      for (std::size_t k = 0; k < kSnakes; ++k) masked[k] = hidden[k] - absent[k];
    } else if (o.mask_ratio > 0) {
      mask_some(o.mask_ratio, random, masked);
    }
  }
  return batch;
}

Loader::Loader(const BoardSet& set, std::int64_t count,
               std::function<std::vector<std::int64_t>(std::int64_t)> rows, SampleOptions sample,
               LoaderOptions options)
    : set_(set), count_(count), rows_(std::move(rows)), sample_(sample), options_(options) {
  try {
    for (int t = 0; t < options_.threads; ++t) threads_.emplace_back([this] { work(); });
  } catch (...) {  // there is no room for another thread; those before it wait
    stop();
    throw;
  }
}

Loader::~Loader() { stop(); }

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void Loader::work() {
  for (std::unique_lock lock(mutex_);;) {
    core::wait_until(changed_, lock,
                     [&] { return stopping_ || begun_ >= count_ || begun_ < given_ + options_.prefetch; });
    if (stopping_ || begun_ >= count_ || failure_) return;
    const std::int64_t mine = begun_++;
    lock.unlock();
    Batch batch;
    std::exception_ptr failure;
    try {
      batch = make_batch(set_, rows_(mine), sample_, options_.pinned);
    } catch (...) {  // a thread's entry: `next` rethrows it
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) failure_ = failure;
    ready_.emplace(mine, std::move(batch));
    changed_.notify_all();
  }
}

Batch Loader::next() {
  SD_CHECK(given_ < count_, fmt::format("an epoch has {} batches, and all were given", count_));
  if (threads_.empty()) return make_batch(set_, rows_(given_++), sample_, options_.pinned);
  std::unique_lock lock(mutex_);
  core::wait_until(changed_, lock, [&] { return failure_ || ready_.contains(given_); });
  if (failure_) std::rethrow_exception(failure_);
  Batch batch = std::move(ready_.extract(given_).mapped());
  ++given_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

Batch on_device(Batch batch, at::Device device) {
  if (device.is_cpu()) return batch;
  for (at::Tensor* t : {&batch.seen, &batch.whole, &batch.masked, &batch.hidden, &batch.weight})
    if (t->defined()) *t = t->to(device, true);
  return batch;
}

std::vector<std::int64_t> epoch_order(std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  SD_CHECK(n <= std::int64_t{UINT32_MAX},
           fmt::format("too many samples to shuffle: {}, at most 2^32 - 1", n));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  core::RandomStream random(seed, static_cast<std::uint64_t>(epoch), core::Purpose::kShuffle);
  for (std::int64_t i = n - 1; i > 0; --i) {
    const std::uint32_t j = random.below(static_cast<std::uint32_t>(i + 1));
    std::swap(order[static_cast<std::size_t>(i)], order[j]);
  }
  return order;
}

std::int64_t batch_count(std::int64_t n, std::int64_t begin, const Shares& shares) {
  const std::int64_t all = shares.batch * shares.ranks, left = std::max<std::int64_t>(0, n - begin);
  return shares.drop_last ? left / all : (left + all - 1) / all;
}

std::vector<std::int64_t> rank_batch(const std::vector<std::int64_t>& order, std::int64_t begin,
                                     std::int64_t k, const Shares& shares) {
  const auto n = static_cast<std::int64_t>(order.size());
  std::vector<std::int64_t> mine(static_cast<std::size_t>(shares.batch), kNoSample);
  const std::int64_t first = begin + (k * shares.ranks + shares.rank) * shares.batch;
  for (std::int64_t i = 0; i < shares.batch && first + i < n; ++i)
    mine[static_cast<std::size_t>(i)] = order[static_cast<std::size_t>(first + i)];
  return mine;
}

}  // namespace snake_ddp::pretrain
