// Adam's implementations against each other.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "../host_loops.hpp"
#include "learners/adam.hpp"

namespace {

using namespace snake_ddp;
using Way = learners::Adam::Way;

struct Trained {
  nets::FlatParameters weights, target;
  learners::Adam adam;

  Trained(Way way, at::Device device)
      : weights({{13, 17}, {29, 0}}, device), target(weights.like()), adam(weights, 1e-2) {
    adam.way = way;
    const at::Tensor start = at::arange(weights.flat().numel(), at::kFloat).sin_();
    weights.flat().copy_(start);
    target.flat().copy_(start);
  }
};

// Sixty steps, some without a target, with gradients above and below the limit, and another rate on the way.
void compare(Way way, at::Device device) {
  Trained plain(Way::kOnePass, at::kCPU), other(way, device);
  at::manual_seed(5);
  for (int u = 0; u < 60; ++u) {
    const at::Tensor gradient = at::randn(plain.weights.flat().sizes()).mul_(u % 2 == 0 ? 1.0 : 1e-3);
    if (u == 30) plain.adam.learning_rate = other.adam.learning_rate = 3e-3;
    at::Tensor norm[2], none;
    Trained* both[2] = {&plain, &other};
    for (int k = 0; k < 2; ++k) {
      at::Tensor own = gradient.clone().to(both[k]->weights.flat().device());
      norm[k] = both[k]->adam.step(both[k]->weights.flat(), own, 1.0,
                                   u % 3 == 0 ? none : both[k]->target.flat(), 0.01);
    }
    CHECK(norm[1].item<double>() == Approx(norm[0].item<double>()).epsilon(1e-5));
  }
  const auto near = [](const at::Tensor& a, const at::Tensor& b) {
    return at::allclose(a.to(at::kCPU), b, /*rtol=*/1e-5, /*atol=*/2e-6);
  };
  CHECK(near(other.weights.flat(), plain.weights.flat()));
  CHECK(near(other.target.flat(), plain.target.flat()));
  CHECK(near(other.adam.first_moment.flat(), plain.adam.first_moment.flat()));
  CHECK(near(other.adam.second_moment.flat(), plain.adam.second_moment.flat()));
  CHECK(other.adam.steps.item<float>() == 60);
}

}  // namespace

TEST_CASE("Adam's functors, and the library's kernels, equal the pass over memory", "[parity]") {
  compare(Way::kPieces, at::kCPU);
  compare(Way::kLibrary, at::kCPU);
}

TEST_CASE("Adam's elements may be stepped in any order, and at once", "[unit]") {
  for (const auto& way : {shuffled, threaded}) {
    const HostGoes goes(way);
    compare(Way::kPieces, at::kCPU);
  }
}

// Hidden: test_device.py runs it where there is a GPU.
TEST_CASE("Adam's kernels on a device equal the pass over memory", "[.device]") {
  compare(Way::kPieces, at::kCUDA);
}
