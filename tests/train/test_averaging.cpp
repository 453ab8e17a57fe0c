// How ranks' updates come together, over every learner: two ranks are two threads of this process.
#include "named_tensors.hpp"

#include <ATen/ATen.h>

#include <array>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "learners/buffer.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "snake_ddp/core/error.hpp"
#include "train/averaging.hpp"

namespace {

using namespace snake_ddp;
using learners::Average, learners::Learner;
using named_tensors::copy_of, named_tensors::require_same;
using train::Averaging;

constexpr int kRanks = 2;
const Average kAlone = [](at::Tensor&) {};

learners::LearnerOptions options_of(const std::string& algo) {
  learners::LearnerOptions o;
  o.algo = algo;
  o.hidden_size = 24;
  o.sequence_length = 4;
  o.burn_in = 1;
  return o;
}

std::vector<learners::Batch> batches_of(const Learner& learner, int count, std::uint64_t seed) {
  std::vector<learners::Batch> all;
  for (int i = 0; i < count; ++i) {
    at::manual_seed(seed + static_cast<std::uint64_t>(i));
    all.push_back(learners::random_batch(learner.columns(), 16));
  }
  return all;
}

bool differ(const nets::NamedTensors& a, const nets::NamedTensors& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!at::equal(a[i].second, b[i].second)) return true;
  return false;
}

// Where threads bring their tensors together.
class Table {
 public:
  Average average_of(int rank) {
    return [this, rank](at::Tensor& t) { average(rank, t); };
  }

 private:
  void average(int rank, at::Tensor& tensor) {
    std::unique_lock lock(mutex_);
    given_[static_cast<std::size_t>(rank)] = tensor.clone();
    synchronise(lock);
    const at::Tensor mean = (given_[0] + given_[1]) / kRanks;
    synchronise(lock);
    tensor.copy_(mean);
  }

  void synchronise(std::unique_lock<std::mutex>& lock) {
    const long round = round_;
    if (++here_ == kRanks) {
      here_ = 0;
      ++round_;
      changed_.notify_all();
    } else if (!changed_.wait_for(lock, std::chrono::minutes(1), [&] { return round_ != round; })) {
      throw std::runtime_error("the other rank does not come");
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<at::Tensor, kRanks> given_;
  int here_ = 0;
  long round_ = 0;
};

struct Rank {
  std::unique_ptr<Learner> learner;
  std::unique_ptr<Averaging> averaging;
};

using Make = std::function<std::unique_ptr<Averaging>(Learner&, const Average&)>;

std::array<Rank, kRanks> ranks_of(const learners::LearnerOptions& options, Table& table, const Make& make) {
  std::array<Rank, kRanks> ranks;
  for (int r = 0; r < kRanks; ++r) {
    Rank& rank = ranks[static_cast<std::size_t>(r)];
    rank.learner = learners::make_learner(options);
    rank.averaging = make(*rank.learner, table.average_of(r));
    rank.averaging->begin();
  }
  return ranks;
}

// Each rank on a thread of its own.
void update(std::array<Rank, kRanks>& ranks, const std::array<std::vector<learners::Batch>, kRanks>& batches,
            bool met = false) {
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      for (const learners::Batch& batch : batches[r]) {
        ranks[r].learner->update(batch, ranks[r].averaging->reduce());
        ranks[r].averaging->updated();
      }
      if (met) ranks[r].averaging->synchronise();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Make weights(std::int64_t interval, double momentum = 0) {
  return [=](Learner& learner, const Average& average) {
    return train::average_weights(learner, interval, momentum, average);
  };
}

// What the names in a learner's state say.
bool is_weight(const std::string& name) {
  return name != "updates" && name.find("adam.") == std::string::npos &&
         name.find("target.") == std::string::npos;
}

}  // namespace

TEST_CASE("equal ranks that average their weights are one rank that does not, bit for bit", "[conformance]") {
  for (const auto& entry : learners::registry()) {
    for (const std::int64_t interval : {1, 3}) {
      CAPTURE(entry.name, interval);
      Table table;
      auto ranks = ranks_of(options_of(entry.name), table, weights(interval));
      const auto alone = learners::make_learner(options_of(entry.name));
      const std::vector<learners::Batch> batches = batches_of(*alone, 7, 10);
      for (const learners::Batch& batch : batches) alone->update(batch, kAlone);
      update(ranks, {batches, batches}, true);
      require_same(ranks[0].learner->state(), alone->state());
      require_same(ranks[1].learner->state(), alone->state());
    }
  }
}

TEST_CASE("ranks step by themselves between averages, and the outer step is the plain equation",
          "[conformance]") {
  constexpr double kMomentum = 0.8;
  for (const auto& entry : learners::registry()) {
    for (const bool outer : {false, true}) {
      CAPTURE(entry.name, outer);
      const learners::LearnerOptions options = options_of(entry.name);
      Table table;
      auto ranks = ranks_of(options, table, weights(2, outer ? kMomentum : 0));
      const std::array plain = {learners::make_learner(options), learners::make_learner(options)};
      nets::NamedTensors start = copy_of(plain[0]->state());
      std::map<std::string, at::Tensor> velocity;
      for (std::uint64_t round = 0; round < 3; ++round) {
        const std::array batches = {batches_of(*plain[0], 2, 10 + 4 * round),
                                    batches_of(*plain[0], 2, 60 + 4 * round)};
        update(ranks, batches);
        for (std::size_t r = 0; r < kRanks; ++r)
          for (const learners::Batch& batch : batches[r]) plain[r]->update(batch, kAlone);
        const nets::NamedTensors a = copy_of(plain[0]->state()), b = copy_of(plain[1]->state());
        CHECK(differ(a, b));
        nets::NamedTensors next;
        for (std::size_t i = 0; i < a.size(); ++i) {
          const auto& [name, of_a] = a[i];
          if (name == "updates") {
            next.emplace_back(name, of_a);
            continue;
          }
          at::Tensor value = (of_a + b[i].second) / kRanks;
          if (outer && is_weight(name)) {
            at::Tensor& v = velocity[name];
            if (!v.defined()) v = at::zeros_like(value);
            const at::Tensor delta = start[i].second - value;
            v = kMomentum * v + delta;
            value = start[i].second - (delta + kMomentum * v);
          }
          next.emplace_back(name, value);
        }
        require_same(ranks[0].learner->state(), ranks[1].learner->state());
        const nets::NamedTensors found = copy_of(ranks[0].learner->state());
        for (std::size_t i = 0; i < found.size(); ++i) {
          CAPTURE(found[i].first, round);
          if (outer)
            CHECK(at::allclose(found[i].second, next[i].second, 1e-4, 1e-6));
          else
            CHECK(at::equal(found[i].second, next[i].second));
        }
        // Rounding apart, which grows: the plain ones go on from what was found.
        for (const auto& learner : plain) {
          nets::copy_state(found, learner->state(), "the round's end");
          learner->state_changed();
        }
        start = found;
      }
    }
  }
}

TEST_CASE("an outer step's momentum goes on from its state with the same bits", "[conformance]") {
  for (const auto& entry : learners::registry()) {
    CAPTURE(entry.name);
    Table table, other_table;
    auto ranks = ranks_of(options_of(entry.name), table, weights(2, 0.9));
    const auto batches = [&](std::uint64_t seed) {
      return std::array{batches_of(*ranks[0].learner, 4, seed), batches_of(*ranks[0].learner, 4, seed + 10)};
    };
    update(ranks, batches(10));
    auto again = ranks_of(options_of(entry.name), other_table, weights(2, 0.9));
    for (const Rank& rank : again) {
      nets::copy_state(copy_of(ranks[0].learner->state()), rank.learner->state(), "saved");
      rank.learner->state_changed();
      rank.averaging->restore(copy_of(ranks[0].averaging->state()), "saved");
      rank.averaging->begin();
    }
    update(ranks, batches(40));
    update(again, batches(40));
    require_same(ranks[0].learner->state(), again[0].learner->state());
  }
}

TEST_CASE("a damaged state of averages is a file error", "[unit]") {
  const auto learner = learners::make_learner(options_of("dqn"));
  const std::unique_ptr<Averaging> local = train::average_weights(*learner, 2, 0.9, {});
  CHECK_THROWS_AS(local->restore({{"velocity", at::zeros({3}, at::kLong)}}, "the file"), core::FileError);
  local->restore({{"velocity", at::zeros({3})}}, "the file");
  CHECK_THROWS_AS(local->begin(), core::FileError);
}
