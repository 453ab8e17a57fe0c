// Five updates of a double DQN written with torch.nn and torch.optim, recorded by record_dqn.py.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "recorded.hpp"
#include "test_data.hpp"

namespace {

using namespace snake_ddp;

using recorded::part;
using recorded::require_near;

}  // namespace

TEST_CASE("five updates of DQN, VDN and QMIX equal those of a plain implementation", "[golden]") {
  const std::string algo = GENERATE("dqn", "vdn", "qmix");
  const auto recording = io::load_state_dict(test_data(algo + "_updates.pth"));
  learners::LearnerOptions options = recorded::dqn_options(algo);
  options.backend = GENERATE(&nets::host_backend(), &nets::aten_backend());
  const auto learner = learners::make_learner(options);
  const nets::NamedTensors state = learner->state();
  nets::copy_state(part(recording, "net0."), part(state, "net."), "net0");
  nets::copy_state(part(recording, "target0."), part(state, "net_target."), "target0");
  if (algo == "qmix") {
    nets::copy_state(part(recording, "mixer0."), learner->exported_critic(), "mixer0");
    nets::copy_state(part(recording, "mixer_target0."), part(state, "target."), "mixer_target0");
  }
  learner->state_changed();
  bool clipped = false;
  for (int u = 0; u < 5; ++u) {
    CAPTURE(u);
    const auto now = part(recording, "update" + std::to_string(u) + ".");
    const auto one = [&](const std::string& name) { return recorded::one(now, name); };
    learner->update(recorded::dqn_batch(recording, u), [](at::Tensor&) {});
    const learners::UpdateStats stats = learner->stats();
    CHECK(stats.critic_loss == Approx(one("loss").item<double>()).epsilon(1e-5));
    CHECK(stats.critic_grad_norm == Approx(one("norm").item<double>()).epsilon(1e-5));
    CHECK(stats.q_mean == Approx(one("q_mean").item<double>()).margin(1e-6));
    clipped = clipped || stats.critic_grad_norm > options.max_grad_norm;
  }
  CHECK(clipped);
  require_near(part(state, "net."), part(recording, "net5."));
  require_near(part(state, "net_target."), part(recording, "target5."));
  if (algo != "qmix") return;
  require_near(learner->exported_critic(), part(recording, "mixer5."));
  require_near(part(state, "target."), part(recording, "mixer_target5."));
}
