// PQN's update from a rollout, compared with one written with torch.nn and torch.optim, recorded by record_pqn.py.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "learners/columns.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "recorded.hpp"
#include "test_data.hpp"

namespace {

using namespace snake_ddp;

using recorded::part;
using recorded::with_one;

}  // namespace

TEST_CASE("updates of PQN and PQN-VDN equal those of a plain implementation", "[golden]") {
  const std::string algo = GENERATE("pqn", "pqn_vdn");
  CAPTURE(algo);
  const auto recording = io::load_state_dict(test_data(algo + "_updates.pth"));
  learners::LearnerOptions options;
  options.algo = algo;
  options.features = 41;
  options.hidden_size = 32;
  options.c_lr = 4e-4;
  options.max_grad_norm = 0.5;
  options.td_lambda = 0.65;
  const auto learner = learners::make_learner(options);
  nets::copy_state(part(recording, "net0."), learner->exported_actor(), "net0");

  const auto rollout = part(recording, "rollout.");
  const auto column = [&](const std::string& name) { return recorded::one(rollout, name).contiguous(); };
  const std::vector<at::Tensor> rows = {with_one(column("observation")), column("action"), column("return")};
  bool clipped = false;
  for (int u = 0; u < 6; ++u) {
    CAPTURE(u);
    const auto now = part(recording, "update" + std::to_string(u) + ".");
    const at::Tensor drawn = recorded::one(now, "rows").to(at::kLong);
    learners::Batch batch;
    for (const at::Tensor& all : rows) batch.columns.push_back(all.index_select(0, drawn));
    learner->update(batch, [](at::Tensor&) {});
    const learners::UpdateStats stats = learner->stats();
    CHECK(stats.critic_loss == Approx(recorded::one(now, "loss").item<double>()).epsilon(1e-5));
    CHECK(stats.critic_grad_norm == Approx(recorded::one(now, "norm").item<double>()).epsilon(1e-5));
    CHECK(stats.q_mean == Approx(recorded::one(now, "q_mean").item<double>()).margin(1e-6));
    clipped = clipped || stats.critic_grad_norm > options.max_grad_norm;
  }
  CHECK(clipped);
  recorded::require_near(learner->exported_actor(), part(recording, "net_after."));
}
