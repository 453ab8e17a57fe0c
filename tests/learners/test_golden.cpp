// Five updates of the reference, recorded from its PyTorch implementation: see tests/data/README.md.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "learners/bicnet.hpp"
#include "learners/ddpg.hpp"
#include "recorded.hpp"
#include "test_data.hpp"

namespace {

using namespace snake_ddp;

using recorded::one;
using recorded::part;
using recorded::with_one;

double relative_difference(const at::Tensor& got, const at::Tensor& expected) {
  return ((got - expected).abs().max() / expected.abs().max()).item<double>();
}

void require_equal_state(const nets::NamedTensors& got, const io::NamedTensors& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(got[i].first);
    REQUIRE(got[i].first == expected[i].first);
    REQUIRE(got[i].second.sizes() == expected[i].second.sizes());
    // Adam divides gradients by their own size, so one of 1e-9 that is rounded otherwise moves its weight otherwise: the
    // reference in double is 2e-6 away from its own recording in float. Hence an absolute limit for each weight, and a
    // narrow one for all of them together.
    const at::Tensor off = got[i].second - expected[i].second;
    CHECK(off.abs().max().item<double>() < 1e-5);
    CHECK(off.norm().item<double>() < 2e-6 * expected[i].second.norm().item<double>());
  }
}

template <class Learner>
void check_recording(const std::string& recording, const std::string& activation) {
  const auto recorded = io::load_state_dict(test_data(recording));
  learners::LearnerOptions options;
  options.hidden_size = 32;
  options.output_activation = activation;
  Learner learner(options);
  nets::copy_state(part(recorded, "actor0."), learner.actor().named(), "actor0");
  nets::copy_state(part(recorded, "critic0."), learner.critic().named(), "critic0");
  nets::copy_state(part(recorded, "actor0."), learner.actor_target().named(), "actor0");
  nets::copy_state(part(recorded, "critic0."), learner.critic_target().named(), "critic0");
  learner.state_changed();

  const at::Tensor obs = one(recorded, "obs");
  CHECK(relative_difference(learner.policy().action_values(with_one(obs)), one(recorded, "actor_out")) <
        1e-5);

  const double gamma = 0.99;
  for (int u = 0; u < 5; ++u) {
    CAPTURE(u);
    const std::string prefix = "update" + std::to_string(u) + ".";
    learners::Batch batch;
    batch.columns = {one(recorded, prefix + "state"), one(recorded, prefix + "action"),
                     one(recorded, prefix + "reward").squeeze(2), one(recorded, prefix + "next_state"),
                     (1.0 - one(recorded, prefix + "done").squeeze(2)) * gamma};
    for (const auto c : {learners::kObservation, learners::kNextObservation})
      batch.columns[c] = with_one(batch.columns[c]);
    for (at::Tensor& c : batch.columns) c = c.to(at::kFloat).contiguous();
    learner.update(batch, [](at::Tensor&) {});
    const learners::UpdateStats stats = learner.stats();
    CHECK(stats.critic_loss == Approx(one(recorded, prefix + "critic_loss").item<double>()).epsilon(1e-5));
    CHECK(stats.actor_loss == Approx(one(recorded, prefix + "actor_loss").item<double>()).epsilon(1e-5));
    CHECK(stats.critic_grad_norm ==
          Approx(one(recorded, prefix + "critic_grad_norm").item<double>()).epsilon(1e-5));
    CHECK(stats.actor_grad_norm ==
          Approx(one(recorded, prefix + "actor_grad_norm").item<double>()).epsilon(1e-5));
  }
  require_equal_state(learner.actor().named(), part(recorded, "actor5."));
  require_equal_state(learner.critic().named(), part(recorded, "critic5."));
  require_equal_state(learner.actor_target().named(), part(recorded, "actor_target5."));
  require_equal_state(learner.critic_target().named(), part(recorded, "critic_target5."));
}

}  // namespace

TEST_CASE("five DDPG updates with a softmax actor equal the reference's", "[golden]") {
  check_recording<learners::Ddpg>("ddpg_softmax_updates.pth", "softmax");
}

TEST_CASE("five DDPG updates with a tanh actor equal the reference's", "[golden]") {
  check_recording<learners::Ddpg>("ddpg_tanh_updates.pth", "tanh");
}

TEST_CASE("five BiCNet updates with a softmax actor equal the reference's", "[golden]") {
  check_recording<learners::Bicnet>("bicnet_softmax_updates.pth", "softmax");
}

TEST_CASE("five BiCNet updates with a tanh actor equal the reference's", "[golden]") {
  check_recording<learners::Bicnet>("bicnet_tanh_updates.pth", "tanh");
}
