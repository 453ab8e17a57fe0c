// What products of lower precision do to the recorded updates.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "recorded.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/learners/ddpg.hpp"
#include "snake_ddp/nets/precision.hpp"

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

// How far weights are from the recording's after its five updates, as a share of how far these moved them.
double share_of_the_way(Precision precision) {
  const Chosen chosen(precision);
  const auto recorded = io::load_state_dict(std::string(SD_TEST_DATA) + "/ddpg_softmax_updates.pth");
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
  double off = 0, moved = 0;
  for (const auto& [name, net] :
       {std::pair{"actor", &learner.actor()}, std::pair{"critic", &learner.critic()}}) {
    const auto before = part(recorded, std::string(name) + "0."),
               after = part(recorded, std::string(name) + "5.");
    const nets::NamedTensors now = net->named();
    for (std::size_t k = 0; k < now.size(); ++k) {
      off += (now[k].second - after[k].second).square().sum().item<double>();
      moved += (after[k].second - before[k].second).square().sum().item<double>();
    }
  }
  return std::sqrt(off / moved);
}

}  // namespace

TEST_CASE("products of lower precision lead near to where the recorded updates do", "[golden]") {
  const double float32 = share_of_the_way(Precision::kFloat32), tf32 = share_of_the_way(Precision::kTf32),
               bf16 = share_of_the_way(Precision::kBf16);
  WARN("off, as a share of the way: float32 " << float32 << ", tf32 " << tf32 << ", bf16 " << bf16);
  CHECK(float32 < 1e-3);
  CHECK(tf32 > float32);
  CHECK(tf32 < 0.1);
  CHECK(bf16 > tf32);
  CHECK(bf16 < 0.5);
  CHECK(nets::precision_from_name("bf16") == Precision::kBf16);
  CHECK_THROWS_AS(nets::precision_from_name("fp8"), base::UsageError);
}
