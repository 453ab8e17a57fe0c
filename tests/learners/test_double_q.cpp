// The kernel of double Q-learning's error, on the host, against the equations in the library's operators.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "../../src/learners/double_q_work.hpp"
#include "../host_loops.hpp"
#include "snake_ddp/core/each.hpp"

namespace {

using namespace snake_ddp;

// Errors of up to some 3: in both parts of the Huber loss.
void compare(int snakes, std::int64_t learned) {
  CAPTURE(snakes, learned);
  const std::int64_t rows = snakes * learned;
  const at::Tensor values = at::randn({rows, 4}), online = at::randn({rows, 4}),
                   target = at::randn({rows, 4}),
                   action = at::one_hot(at::randint(4, {rows}), 4).to(at::kFloat),
                   reward = at::randn({rows, 1}),
                   discount = at::rand({rows, 1}).mul_(at::randint(2, {rows, 1})),
                   moves = at::randint(2, {rows, 4}).to(at::kFloat);
  at::Tensor loss = at::full({learned}, std::numeric_limits<float>::quiet_NaN()),
             d_values = at::empty_like(values);
  const auto floats = [](const at::Tensor& t) { return t.data_ptr<float>(); };
  core::each_on_host(
      learned, learners::DoubleQ{snakes, 1.0F / static_cast<float>(learned), floats(values), floats(action),
                                 floats(reward), floats(discount), floats(online), floats(target),
                                 floats(moves), floats(loss), floats(d_values)});

  const at::Tensor choice =
      online.masked_fill(moves <= 0, -std::numeric_limits<float>::infinity()).argmax(1, true);
  const at::Tensor error = ((values * action).sum(1, true) - reward - discount * target.gather(1, choice))
                               .view({-1, snakes})
                               .sum(1, true);
  const at::Tensor slope = error.clamp(-1, 1);
  CHECK(at::allclose(loss, at::huber_loss(error, at::zeros_like(error), at::Reduction::None).view(-1), 1e-4,
                     1e-5));
  CHECK(at::allclose(d_values,
                     action * (slope / static_cast<double>(learned)).expand({-1, snakes}).reshape({-1, 1}),
                     1e-4, 1e-6));
}

}  // namespace

TEST_CASE("double Q-learning's kernel is the library's operators, for snakes and for teams", "[unit]") {
  at::manual_seed(4);
  for (const auto& way : {shuffled, threaded}) {
    const HostGoes goes(way);
    for (const std::int64_t learned : {1, 5, 400}) {
      compare(1, learned);
      compare(3, learned);
    }
  }
}

TEST_CASE("double Q-learning's kernel passes on values that are not numbers", "[unit]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float values[4] = {nan, 0, 0, 0}, action[4] = {1, 0, 0, 0}, none = 0, other[4] = {1, 2, 3, 4};
  float loss = 0, d_values[4] = {};
  core::each_on_host(
      1, learners::DoubleQ{1, 1.0F, values, action, &none, &none, other, other, other, &loss, d_values});
  CHECK(std::isnan(loss));
  CHECK(std::isnan(d_values[0]));
}
