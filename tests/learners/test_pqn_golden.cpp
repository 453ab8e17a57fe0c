// PQN's update from a rollout, compared with one written with torch.nn and torch.optim, recorded by record_pqn.py.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "recorded.hpp"
#include "snake_ddp/learners/columns.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/learners/pqn.hpp"
#include "snake_ddp/learners/registry.hpp"
#include "test_data.hpp"

namespace {

using namespace snake_ddp;

using recorded::part;
using recorded::with_one;

double distance(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a - b).abs().max().item<double>();
}

}  // namespace

TEST_CASE("returns and updates of PQN and PQN-VDN equal those of a plain implementation", "[golden]") {
  const std::string algo = GENERATE("pqn", "pqn_vdn");
  CAPTURE(algo);
  const auto recording = files::load_state_dict(test_data(algo + "_updates.pth"));
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
  // What the network expected on each board when it was played, as the collector stores it.
  const at::Tensor next = with_one(column("next_observation")), back = column("back");
  at::Tensor value = at::full({back.size(0), learners::kTeam}, NAN);
  for (std::int64_t i = 0; i < back.size(0); ++i) {
    const std::int64_t before = i - static_cast<std::int64_t>(back[i].item<float>());
    if (before == i || before < 0) continue;
    const at::Tensor values = learner->policy().action_values(next[before].unsqueeze(0))[0];
    value[i] = values.masked_fill(column("next_moves")[before] <= 0, -INFINITY).amax(1);
  }
  const std::vector<at::Tensor> columns = {with_one(column("observation")),
                                           column("action"),
                                           column("reward"),
                                           next,
                                           column("discount"),
                                           column("next_moves"),
                                           back,
                                           value};
  replay::Buffer played(learner->columns(), back.size(0) + 5);
  for (std::int64_t i = 0; i < back.size(0); ++i) {
    std::vector<const float*> row;
    for (const at::Tensor& c : columns) row.push_back(c.const_data_ptr<float>() + i * c[0].numel());
    played.append(row);
  }
  replay::Batch rows;
  learner->prepare(played, rows);
  REQUIRE(rows.columns.size() == 3);
  CHECK(distance(rows.columns[learners::kReward], column("return")) < 1e-5);

  bool clipped = false;
  for (int u = 0; u < 6; ++u) {
    CAPTURE(u);
    const auto now = part(recording, "update" + std::to_string(u) + ".");
    const at::Tensor drawn = recorded::one(now, "rows").to(at::kLong);
    replay::Batch batch;
    for (const at::Tensor& all : rows.columns) batch.columns.push_back(all.index_select(0, drawn));
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

TEST_CASE("lambda 0 is one step, lambda 1 the whole rollout", "[unit]") {
  // Two games interleaved; the first ends with its third transition, the second continues after the rollout.
  const at::Tensor reward = at::tensor({1.0F, 10.0F, 2.0F, 20.0F, 4.0F}).unsqueeze(1);
  const at::Tensor discount = at::tensor({0.5F, 0.5F, 0.5F, 0.5F, 0.0F}).unsqueeze(1);
  const at::Tensor value = at::tensor({8.0F, 80.0F, 6.0F, 60.0F, 1000.0F}).unsqueeze(1);
  const at::Tensor back = at::tensor({0.0F, 0.0F, 2.0F, 2.0F, 2.0F}).unsqueeze(1);
  const auto returns = [&](double lambda) {
    return learners::lambda_returns(reward, discount, value, back, lambda).squeeze(1);
  };
  CHECK(at::equal(returns(0), at::tensor({5.0F, 50.0F, 5.0F, 50.0F, 4.0F})));
  CHECK(at::equal(returns(1), at::tensor({3.0F, 35.0F, 4.0F, 50.0F, 4.0F})));
  CHECK(at::equal(returns(0.5), at::tensor({4.125F, 42.5F, 4.5F, 50.0F, 4.0F})));
  SECTION("a game whose previous transition was in an earlier rollout begins here") {
    const at::Tensor longer = at::tensor({7.0F, 7.0F, 2.0F, 2.0F, 2.0F}).unsqueeze(1);
    CHECK(at::equal(learners::lambda_returns(reward, discount, value, longer, 1).squeeze(1), returns(1)));
  }
}
