// Five updates of a recurrent QMIX written with torch.nn and torch.optim, recorded by record_rqmix.py.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "recorded.hpp"
#include "snake_ddp/core/error.hpp"
#include "test_data.hpp"

using namespace snake_ddp;

using recorded::part;
using recorded::require_near;
using recorded::with_one;

TEST_CASE("five updates of recurrent QMIX equal those of a plain implementation", "[golden]") {
  const auto recording = io::load_state_dict(test_data("rqmix_updates.pth"));
  learners::LearnerOptions options;
  options.algo = "rqmix";
  options.features = 41;
  options.hidden_size = 16;
  options.sequence_length = 5;
  options.burn_in = 2;
  options.c_lr = 4e-4;
  options.max_grad_norm = 0.5;
  options.backend = GENERATE(&nets::host_backend(), &nets::aten_backend());
  const auto learner = learners::make_learner(options);
  const nets::NamedTensors state = learner->state();
  nets::copy_state(part(recording, "net0."), part(state, "net."), "net0");
  nets::copy_state(part(recording, "target0."), part(state, "net_target."), "target0");
  nets::copy_state(part(recording, "mixer0."), learner->exported_critic(), "mixer0");
  nets::copy_state(part(recording, "mixer_target0."), part(state, "target."), "mixer_target0");
  bool clipped = false;
  for (int u = 0; u < 5; ++u) {
    CAPTURE(u);
    const auto now = part(recording, "update" + std::to_string(u) + ".");
    const auto one = [&](const std::string& name) { return recorded::one(now, name).contiguous(); };
    const learners::Batch batch{{with_one(one("state")), one("action"), one("reward"),
                                 with_one(one("next_state")), one("discount"), one("next_moves"),
                                 one("there")}};
    learner->update(batch, [](at::Tensor&) {});
    const learners::UpdateStats stats = learner->stats();
    CHECK(stats.critic_loss == Approx(one("loss").item<double>()).epsilon(1e-5));
    CHECK(stats.critic_grad_norm == Approx(one("norm").item<double>()).epsilon(1e-5));
    clipped = clipped || stats.critic_grad_norm > options.max_grad_norm;
  }
  CHECK(clipped);
  require_near(part(state, "net."), part(recording, "net5."));
  require_near(part(state, "net_target."), part(recording, "target5."));
  // Adam makes steps of nearly the same length of gradients that are nearly 0, where sums' rounding shows.
  require_near(learner->exported_critic(), part(recording, "mixer5."), 5e-5);
  require_near(part(state, "target."), part(recording, "mixer_target5."), 5e-5);
}

TEST_CASE("recurrent QMIX rejects windows that are only burn-in", "[unit]") {
  learners::LearnerOptions options;
  options.algo = "rqmix";
  options.burn_in = options.sequence_length;
  CHECK_THROWS_AS(learners::make_learner(options), core::UsageError);
  CHECK_THROWS_WITH(learners::make_learner(options), Catch::Contains("--burn_in"));
}
