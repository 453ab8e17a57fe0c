// The recorded updates with products of lower precision.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "nets/precision.hpp"
#include "recorded.hpp"
#include "snake_ddp/core/error.hpp"
#include "test_data.hpp"

namespace {

using namespace snake_ddp;
using nets::Precision;
using recorded::one;
using recorded::part;

struct Chosen {
  explicit Chosen(Precision precision) { nets::set_product_precision(precision); }
  ~Chosen() { nets::set_product_precision(Precision::kFloat32); }
};

// How far weights are from `after`, as a share of how far these are from `before`.
class Distance {
 public:
  void add(const nets::NamedTensors& now, const io::NamedTensors& before, const io::NamedTensors& after) {
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
double dqn_off(Precision precision) {
  const Chosen chosen(precision);
  const auto recording = io::load_state_dict(test_data("dqn_updates.pth"));
  learners::LearnerOptions options = recorded::dqn_options("dqn");
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

}  // namespace

TEST_CASE("products of lower precision give nearly the recorded updates", "[golden]") {
  const double float32 = dqn_off(Precision::kFloat32), bf16 = dqn_off(Precision::kBf16);
  WARN("dqn off, as a share of the way: float32 " << float32 << ", bf16 " << bf16);
  CHECK(float32 < 1e-3);
  CHECK(bf16 > float32);
  CHECK(bf16 < 0.5);
  CHECK(nets::precision_from_name("bf16") == Precision::kBf16);
  CHECK_THROWS_AS(nets::precision_from_name("fp8"), core::UsageError);
}
