// The properties of every learner in the registry.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "learners/buffer.hpp"
#include "learners/ddpg.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "named_tensors.hpp"
#include "nets/net_mirror.hpp"
#include "nets/policy.hpp"
#include "snake_ddp/core/error.hpp"
#include "witness.hpp"

namespace {

using namespace snake_ddp;
using named_tensors::copy_of, named_tensors::require_same;

const learners::Average kAlone = [](at::Tensor&) {};

learners::LearnerOptions small(const std::string& algo, bool layer_norm = false) {
  learners::LearnerOptions o;
  o.algo = algo;
  o.hidden_size = 24;
  o.layer_norm = layer_norm;
  o.sequence_length = 4;
  o.burn_in = 1;
  return o;
}

learners::Batch random_batch(const learners::Learner& learner, std::int64_t size, std::uint64_t seed) {
  at::manual_seed(seed);
  return learners::random_batch(learner.columns(), size);
}

bool has_flag(const learners::LearnerEntry& entry, const std::string& name) {
  const io::Fields flags = entry.flags();
  return std::any_of(flags.begin(), flags.end(), [&](const io::Field& f) { return f.name == name; });
}

}  // namespace

TEST_CASE("a learner restored from its state continues with the same bits", "[conformance]") {
  for (const auto& entry : learners::registry()) {
    CAPTURE(entry.name);
    const auto a = entry.make(small(entry.name)), b = entry.make(small(entry.name));
    for (std::uint64_t u = 0; u < 5; ++u) a->update(random_batch(*a, 16, u), kAlone);
    const nets::NamedTensors saved = copy_of(a->state());
    nets::copy_state(saved, b->state(), "saved");
    b->state_changed();
    for (std::uint64_t u = 5; u < 10; ++u) {
      a->update(random_batch(*a, 16, u), kAlone);
      b->update(random_batch(*b, 16, u), kAlone);
    }
    require_same(a->state(), b->state());
  }
}

TEST_CASE("a learner fits one batch", "[conformance]") {
  for (const auto& entry : learners::registry()) {
    for (const bool layer_norm : {false, true}) {
      if (layer_norm && !has_flag(entry, "layer_norm")) continue;
      CAPTURE(entry.name, layer_norm);
      learners::LearnerOptions options = small(entry.name, layer_norm);
      options.a_lr = 0;  // a fixed actor gives the critic a fixed target
      options.tau = 0;
      options.c_lr = 3e-3;
      const auto learner = entry.make(options);
      const learners::Batch batch = random_batch(*learner, 8, 1);
      learner->update(batch, kAlone);
      const double first = learner->stats().critic_loss;
      for (int u = 0; u < 2000; ++u) learner->update(batch, kAlone);
      CHECK(learner->stats().critic_loss < 0.02 * first);
    }
  }
}

TEST_CASE("the actor's updates increase the critic's value", "[conformance]") {
  for (const auto& entry : learners::registry()) {
    CAPTURE(entry.name);
    if (nets::is_q_net(entry.make(small(entry.name))->exported_actor())) continue;  // acts by its values
    learners::LearnerOptions options = small(entry.name);
    options.c_lr = 0;
    const auto learner = entry.make(options);
    const learners::Batch batch = random_batch(*learner, 32, 1);
    learner->update(batch, kAlone);
    CHECK(learner->measured().sizes() == at::IntArrayRef{5});
    const double first = learner->stats().actor_loss;
    for (int u = 0; u < 300; ++u) learner->update(batch, kAlone);
    CHECK(learner->stats().actor_loss < first - 1e-3);
  }
}

TEST_CASE("every parameter gets a gradient, and targets follow only slowly", "[conformance]") {
  for (const auto& entry : learners::registry()) {
    CAPTURE(entry.name);
    const auto learner = entry.make(small(entry.name, has_flag(entry, "layer_norm")));
    const nets::NamedTensors before = copy_of(learner->state());
    for (std::uint64_t u = 0; u < 3; ++u) learner->update(random_batch(*learner, 64, u), kAlone);
    for (const auto& [name, old] : before) {
      CAPTURE(name);
      const auto now = learner->state();
      const auto found =
          std::find_if(now.begin(), now.end(), [&, n = name](const auto& item) { return item.first == n; });
      const double moved = (found->second - old).abs().max().item<double>();
      CHECK(moved > 0);
      if (name.find("_target.") != std::string::npos) CHECK(moved < 3 * 3e-4 * 0.05);
    }
  }
}

TEST_CASE("ranks that average their gradients stay equal and do not follow their own batch alone",
          "[conformance]") {
  for (const auto& entry : learners::registry()) {
    CAPTURE(entry.name);
    // Two ranks in one process: the average of both gradients is made by running each update up to its
    // average twice.
    const auto a = entry.make(small(entry.name)), b = entry.make(small(entry.name)),
               alone = entry.make(small(entry.name));
    require_same(a->state(), b->state());
    for (std::uint64_t u = 0; u < 5; ++u) {
      const learners::Batch x = random_batch(*a, 16, 2 * u), y = random_batch(*a, 16, 2 * u + 1);
      learners::Batch both;
      for (std::size_t c = 0; c < x.columns.size(); ++c)
        both.columns.push_back(at::cat({x.columns[c], y.columns[c]}));
      alone->update(both, kAlone);
      // All gradients of rank b from a copy, then of rank a, are exchanged round by round.
      std::vector<at::Tensor> of_a, of_b;
      const nets::NamedTensors start = copy_of(a->state());
      std::size_t rounds = 1;
      for (std::size_t known = 0; known < rounds; ++known) {
        // Gradients before round `known` are averaged already; collect round `known` of both.
        for (auto* rank : {a.get(), b.get()}) {
          auto& mine = rank == a.get() ? of_a : of_b;
          std::size_t round = 0;
          nets::copy_state(start, rank->state(), "start");
          rank->state_changed();
          rank->update(rank == a.get() ? x : y, [&](at::Tensor& gradient) {
            if (round < known) gradient.copy_((of_a[round] + of_b[round]) / 2);
            if (round == known) mine.push_back(gradient.clone());
            ++round;
          });
          rounds = round;
        }
      }
      for (auto* rank : {a.get(), b.get()}) {
        std::size_t round = 0;
        nets::copy_state(start, rank->state(), "start");
        rank->state_changed();
        rank->update(rank == a.get() ? x : y,
                     [&](at::Tensor& gradient) { gradient.copy_((of_a[round] + of_b[round]) / 2), ++round; });
      }
      require_same(a->exported_actor(), b->exported_actor());
    }
    const nets::NamedTensors split = a->exported_actor(), whole = alone->exported_actor();
    for (std::size_t i = 0; i < split.size(); ++i) {
      CAPTURE(split[i].first);
      CHECK((split[i].second - whole[i].second).abs().max().item<double>() < 1e-6);
    }
  }
}

#ifdef SD_HAVE_WITNESS
namespace {

/// The operators and averages of an update, in their order.
class Course final : private Witness {
 public:
  std::vector<std::string> of(learners::Learner& learner, const learners::Batch& batch) {
    calls_.clear();
    watch();
    learner.update(batch, [this](at::Tensor& gradient) {
      rest();
      calls_.push_back("average " + std::to_string(gradient.numel()));
      gradient.mul_(0.5);
      watch();
    });
    rest();
    return calls_;
  }

 private:
  void before(const at::RecordFunction& call, int depth) override {
    if (depth == 0) calls_.emplace_back(call.name());
  }
  void after(const at::RecordFunction& /*call*/, int /*depth*/) override {}

  std::vector<std::string> calls_;
};

}  // namespace

// Ranks have different batches: what an update calls may not depend on them, or a rank waits for what another one never calls.
TEST_CASE("ranks call the same averages in the same order, whatever their batches hold", "[conformance]") {
  for (const auto& entry : learners::registry()) {
    CAPTURE(entry.name);
    learners::LearnerOptions options = small(entry.name);
    options.backend = &nets::aten_backend();  // operators, as on a GPU
    const auto ranks = {entry.make(options), entry.make(options), entry.make(options), entry.make(options)};
    for (std::uint64_t u = 0; u < 4; ++u) {
      std::vector<std::vector<std::string>> courses;
      for (const auto& learner : ranks) {
        learners::Batch batch = random_batch(*learner, 16, 100 * u + courses.size());
        for (at::Tensor& column : batch.columns) {
          if (courses.size() == 2) column.zero_();
          if (courses.size() == 3) column.fill_(1);
        }
        std::vector<std::string> course = Course().of(*learner, batch);
        // Without recordings operators may depend on what is there; averages may not.
        if (!entry.cuda_graphs)
          std::erase_if(course, [](const std::string& call) { return !call.starts_with("average "); });
        courses.push_back(course);
      }
      CHECK(std::any_of(courses[0].begin(), courses[0].end(),
                        [](const std::string& call) { return call.starts_with("average "); }));
      for (const auto& course : courses) CHECK(course == courses[0]);
    }
  }
}
#endif

TEST_CASE("an unknown learner is a usage error that lists the known ones", "[unit]") {
  learners::LearnerOptions options;
  options.algo = "ddgp";
  CHECK_THROWS_WITH(learners::make_learner(options), Catch::Contains("ddgp") && Catch::Contains("ddpg"));
}

TEST_CASE("an update with learning rate 0 changes no weight, and a scaled rate gives another update",
          "[conformance]") {
  const auto of_networks = [](learners::Learner& learner) {
    nets::NamedTensors weights;
    for (const auto& [name, tensor] : copy_of(learner.state()))
      if (name != "updates" && name.find("adam.") == std::string::npos) weights.emplace_back(name, tensor);
    return weights;
  };
  for (const learners::LearnerEntry& entry : learners::registry()) {
    CAPTURE(entry.name);
    learners::LearnerOptions options = small(entry.name);
    options.a_lr = 1e-3;
    options.c_lr = 2e-4;
    const auto full = entry.make(options), none = entry.make(options), again = entry.make(options),
               half = entry.make(options);
    const nets::NamedTensors before = of_networks(*full);
    const learners::Batch batch = random_batch(*full, 16, 3);
    none->scale_rates(0);
    again->scale_rates(0.5);
    again->scale_rates(1);
    half->scale_rates(0.5);
    for (const auto& learner : {full.get(), none.get(), again.get(), half.get()})
      learner->update(batch, kAlone);
    require_same(of_networks(*none), before);
    require_same(copy_of(again->state()), copy_of(full->state()));
    // Adam's first step is as long as the rate, whatever the gradient; no network is left out.
    const nets::NamedTensors whole = of_networks(*full), part = of_networks(*half);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const auto& [name, value] = whole[i];
      if (name.find("target.") != std::string::npos) continue;
      CAPTURE(name);
      const auto step = [&](const at::Tensor& after) {
        return (after - before[i].second).abs().max().item<double>();
      };
      const double rate = name.starts_with("actor.") ? options.a_lr : options.c_lr;
      CHECK(step(value) == Approx(rate).epsilon(0.05));
      CHECK(step(part[i].second) == Approx(0.5 * rate).epsilon(0.05));
    }
  }
}

TEST_CASE("from exported weights each target starts as its network, and the optimizer from zero",
          "[conformance]") {
  for (const learners::LearnerEntry& entry : learners::registry()) {
    CAPTURE(entry.name);
    learners::LearnerOptions options = small(entry.name);
    const auto learner = entry.make(options);
    for (std::uint64_t u = 0; u < 3; ++u) learner->update(random_batch(*learner, 16, u), kAlone);
    at::manual_seed(5);
    for (const nets::NamedTensors& file : {learner->exported_actor(), learner->exported_critic()})
      for (const auto& [name, tensor] : file) at::Tensor(tensor).uniform_(-1, 1);
    const nets::NamedTensors written[] = {copy_of(learner->exported_actor()),
                                          copy_of(learner->exported_critic())};
    learner->start_from_exported();
    require_same(copy_of(learner->exported_actor()), written[0]);
    require_same(copy_of(learner->exported_critic()), written[1]);

    const nets::NamedTensors state = learner->state();
    const auto find = [&](const std::string& wanted) {
      const auto found =
          std::find_if(state.begin(), state.end(), [&](const auto& item) { return item.first == wanted; });
      REQUIRE(found != state.end());
      return found->second;
    };
    // The files of DQN and its variants hold the target itself, except for QMIX's.
    const bool saved_target = entry.make == learners::find_learner("dqn").make && entry.name != "qmix";
    int targets = 0;
    for (const auto& [name, tensor] : state) {
      CAPTURE(name);
      const std::size_t at = name.find("target.");
      const bool moment = name.find("adam.") != std::string::npos;
      if (moment || name == "updates") CHECK(tensor.count_nonzero().item<std::int64_t>() == 0);
      if (moment || at == std::string::npos || saved_target) continue;
      ++targets;
      // "actor_target.x" follows "actor.x", QMIX's "target.x" its "x".
      const std::string of = at == 0 ? name.substr(7) : name.substr(0, at - 1) + "." + name.substr(at + 7);
      CHECK(at::equal(tensor, find(of)));
    }
    CHECK((targets > 0) == (entry.name.find("pqn") == std::string::npos && !saved_target));
    // The learner computes with what was written: it equals a fresh one restored from this state.
    const auto fresh = entry.make(options);
    nets::copy_state(copy_of(state), fresh->state(), "state");
    fresh->state_changed();
    const learners::Batch batch = random_batch(*learner, 16, 9);
    for (const auto& one : {learner.get(), fresh.get()}) one->update(batch, kAlone);
    require_same(copy_of(fresh->state()), copy_of(learner->state()));
  }
}

TEST_CASE("a symmetric learner stays symmetric, and refuses weights that are not", "[conformance]") {
  const core::Mirror mirror = {{{1}, {0}, {2, -1.0F}}, {{0}, {1}, {3}, {2}}};
  int symmetric = 0;
  for (const learners::LearnerEntry& entry : learners::registry()) {
    if (!has_flag(entry, "mirror_symmetric")) continue;
    CAPTURE(entry.name);
    ++symmetric;
    learners::LearnerOptions options = small(entry.name);
    options.features = 3;
    at::manual_seed(11);
    const at::Tensor seen = at::randn({8, 3, 4});
    const at::Tensor of_features = at::tensor({1, 0, 2, 3}, at::kLong),
                     of_moves = at::tensor({0, 1, 3, 2}, at::kLong);
    const at::Tensor mirrored = seen.index_select(2, of_features) * at::tensor({1.0F, 1.0F, -1.0F, 1.0F});
    const auto off = [&](learners::Learner& learner) {
      const at::Tensor values = learner.policy().action_values(seen).clone();
      return (learner.policy().action_values(mirrored) - values.index_select(2, of_moves))
          .abs()
          .max()
          .item<double>();
    };
    for (const bool is_symmetric : {false, true}) {
      options.mirror_symmetric = is_symmetric;
      options.mirror = is_symmetric ? mirror : core::Mirror();
      const auto learner = entry.make(options);
      const nets::NamedTensors start = copy_of(learner->exported_actor());
      for (std::uint64_t u = 0; u < 20; ++u) learner->update(random_batch(*learner, 16, u), kAlone);
      CHECK((off(*learner) < 1e-5) == is_symmetric);
      CHECK((start[0].second - learner->exported_actor()[0].second).abs().max().item<double>() > 1e-4);
      learner->state_changed();
      if (is_symmetric) {
        // Means over ranks, of gradients and of weights and moments, do not round an element as its image.
        const auto rounded = [](at::Tensor& mean) { mean.mul_(1 + 1e-7 * at::randn_like(mean)); };
        const auto exactly = [&] {
          const nets::NamedTensors weights = learner->exported_actor();
          if (nets::is_q_net(weights)) return !nets::symmetric_inputs(weights, mirror, entry.name).empty();
          nets::DenseNet actor({3, options.hidden_size, 4, nets::Head::kSoftmax, false}, at::kCPU);
          nets::copy_state(weights, actor.named(), entry.name);
          return nets::NetMirror(actor, mirror).is_symmetric(actor.parameters().flat());
        };
        for (std::uint64_t u = 0; u < 5; ++u) learner->update(random_batch(*learner, 16, u), rounded);
        CHECK(exactly());
        for (learners::Trained& t : learner->trained()) {
          rounded(t.weights);
          for (at::Tensor& beside : t.slots) rounded(beside);
        }
        CHECK_FALSE(exactly());
        learner->state_changed();
        for (std::uint64_t u = 0; u < 5; ++u) learner->update(random_batch(*learner, 16, u), kAlone);
        CHECK(exactly());
      }
      learner->start_from_exported();
      at::Tensor(learner->exported_actor()[0].second).select(0, 0).add_(0.01);
      if (!is_symmetric) continue;
      CHECK_THROWS_AS(learner->state_changed(), core::FileError);
      CHECK_THROWS_WITH(learner->start_from_exported(), Catch::Contains("without --mirror_symmetric"));
      // Divergence is reported as such, elsewhere.
      at::Tensor(learner->exported_actor()[0].second).fill_(std::numeric_limits<double>::quiet_NaN());
      CHECK_NOTHROW(learner->state_changed());
    }
  }
  CHECK(symmetric >= 5);
}
