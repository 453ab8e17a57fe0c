// The recorded updates with products of lower precision.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "recorded.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/learners/ddpg.hpp"
#include "snake_ddp/nets/precision.hpp"
#include "test_data.hpp"

namespace {

using namespace snake_ddp;
using nets::Precision;
using recorded::one;
using recorded::part;
using recorded::with_one;

struct Chosen {
  explicit Chosen(Precision precision) { nets::set_product_precision(precision); }
  ~Chosen() { nets::set_product_precision(Precision::kFloat32); }
};

// How far weights are from `after`, as a share of how far these are from `before`.
class Distance {
 public:
  void add(const nets::NamedTensors& now, const files::NamedTensors& before,
           const files::NamedTensors& after) {
    for (const auto& [name, weights] : now) {
      off_ += (weights - one(after, name)).square().sum().item<double>();
      moved_ += (one(after, name) - one(before, name)).square().sum().item<double>();
    }
  }
  [[nodiscard]] double share() const { return std::sqrt(off_ / moved_); }

 private:
  double off_ = 0, moved_ = 0;
};

// Of DQN after the recording's five updates.
double dqn_off(Precision precision, bool library = true) {
  const Chosen chosen(precision);
  const auto recording = files::load_state_dict(test_data("dqn_updates.pth"));
  learners::LearnerOptions options = recorded::dqn_options("dqn");
  options.library_products = library;
  const auto learner = learners::make_learner(options);
  const nets::NamedTensors state = learner->state();
  nets::copy_state(part(recording, "net0."), part(state, "net."), "net0");
  nets::copy_state(part(recording, "target0."), part(state, "net_target."), "target0");
  learner->state_changed();
  for (int u = 0; u < 5; ++u) learner->update(recorded::dqn_batch(recording, u), [](at::Tensor&) {});
  Distance distance;
  distance.add(part(state, "net."), part(recording, "net0."), part(recording, "net5."));
  return distance.share();
}

// Of DDPG after the recording's five updates.
double ddpg_off(Precision precision) {
  const Chosen chosen(precision);
  const auto recorded = files::load_state_dict(test_data("ddpg_softmax_updates.pth"));
  learners::LearnerOptions options;
  options.hidden_size = 32;
  options.library_products = true;
  learners::Ddpg learner(options);
  for (const auto& [prefix, net] :
       {std::pair{"actor0.", &learner.actor()}, std::pair{"critic0.", &learner.critic()},
        std::pair{"actor0.", &learner.actor_target()}, std::pair{"critic0.", &learner.critic_target()}})
    nets::copy_state(part(recorded, prefix), net->named(), prefix);
  learner.state_changed();
  for (int u = 0; u < 5; ++u) {
    const std::string prefix = "update" + std::to_string(u) + ".";
    replay::Batch batch;
    batch.columns = {with_one(one(recorded, prefix + "state")), one(recorded, prefix + "action"),
                     one(recorded, prefix + "reward").squeeze(2),
                     with_one(one(recorded, prefix + "next_state")),
                     (1.0 - one(recorded, prefix + "done").squeeze(2)) * 0.99};
    for (at::Tensor& c : batch.columns) c = c.to(at::kFloat).contiguous();
    learner.update(batch, [](at::Tensor&) {});
  }
  Distance distance;
  distance.add(learner.actor().named(), part(recorded, "actor0."), part(recorded, "actor5."));
  distance.add(learner.critic().named(), part(recorded, "critic0."), part(recorded, "critic5."));
  return distance.share();
}

}  // namespace

TEST_CASE("products of lower precision give nearly the recorded updates", "[golden]") {
  const std::pair<const char*, double (*)(Precision)> learners_off[] = {
      {"ddpg", ddpg_off}, {"dqn", [](Precision p) { return dqn_off(p); }}};
  for (const auto& [algo, off] : learners_off) {
    CAPTURE(algo);
    const double float32 = off(Precision::kFloat32), bf16 = off(Precision::kBf16);
    WARN(algo << " off, as a share of the way: float32 " << float32 << ", bf16 " << bf16);
    CHECK(float32 < 1e-3);
    CHECK(bf16 > float32);
    CHECK(bf16 < 0.5);
  }
  const double ours = dqn_off(Precision::kBf16, /*library=*/false);
  WARN("dqn off in main memory, bf16: " << ours);
  CHECK(ours > dqn_off(Precision::kFloat32, /*library=*/false));
  CHECK(ours < 0.5);
  CHECK(nets::precision_from_name("bf16") == Precision::kBf16);
  CHECK_THROWS_AS(nets::precision_from_name("fp8"), base::UsageError);
}
