// Whole updates on a GPU against the host's. Hidden: test_device.py runs them where there is a GPU.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "learners/buffer.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"

namespace {

using namespace snake_ddp;

std::unique_ptr<learners::Learner> learner_on(at::Device device, const std::string& algo, bool layer_norm) {
  learners::LearnerOptions options;
  options.algo = algo;
  options.layer_norm = layer_norm;
  options.features = 30;
  options.hidden_size = 64;
  options.device = device;
  return learners::make_learner(options);
}

}  // namespace

TEST_CASE("updates on a device are the host's but for rounding", "[.device]") {
  for (const std::string algo : {"ddpg", "bicnet", "dqn", "vdn", "qmix"}) {
    for (const bool layer_norm : {false, true}) {
      CAPTURE(algo, layer_norm);
      const auto here = learner_on(at::kCPU, algo, layer_norm),
                 there = learner_on(at::kCUDA, algo, layer_norm);
      std::vector<at::Tensor> start;
      for (const learners::Trained& t : here->trained()) start.push_back(t.weights.clone());
      for (int u = 0; u < 5; ++u) {
        const learners::Batch batch = learners::random_batch(here->columns(), 96);
        learners::Batch copied;
        for (const at::Tensor& column : batch.columns) copied.columns.push_back(column.to(at::kCUDA));
        here->update(batch, [](at::Tensor&) {});
        there->update(copied, [](at::Tensor&) {});
      }
      for (std::size_t k = 0; k < start.size(); ++k) {
        CAPTURE(k);
        const at::Tensor own = here->trained()[k].weights, moved = own - start[k],
                         apart = there->trained()[k].weights.cpu() - own;
        REQUIRE(moved.norm().item<double>() > 0);
        CHECK(apart.norm().item<double>() < 0.01 * moved.norm().item<double>());
      }
      const at::Tensor own = here->measured(), other = there->measured().cpu();
      CAPTURE(own, other);
      CHECK(at::allclose(other, own, 1e-2, 1e-4));
    }
  }
}
