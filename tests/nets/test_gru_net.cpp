#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "helpers.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/nets/gru_net.hpp"
#include "snake_ddp/nets/policy.hpp"

namespace {

using namespace snake_ddp;
using namespace snake_ddp::tests;

}  // namespace

TEST_CASE("a recurrent network's passes equal automatic differentiation through ATen's GRU", "[parity]") {
  at::manual_seed(1);
  const std::int64_t steps = 6, rows = 9, in = 11, hidden = 8, first = 2, last = 4;
  nets::GruNet net({in, hidden, 4}, at::kCPU, "q_net");
  net.init(7);
  std::vector<at::Tensor> p;
  for (const auto& [name, tensor] : net.named()) p.push_back(tensor.clone().set_requires_grad(true));
  const at::Tensor x = at::randn({steps, rows, in}), start = at::randn({rows, hidden});
  // Some rows begin late: the earlier state must have no effect.
  at::Tensor there = at::ones({steps, rows, 1});
  there.narrow(1, 0, 3).narrow(0, 0, 1).zero_();
  there.narrow(1, 3, 3).narrow(0, 0, 4).zero_();
  std::vector<at::Tensor> outputs;
  at::Tensor state = start;
  for (std::int64_t t = 0; t < steps; ++t) {
    if (t == first) state = state.detach();
    state = at::gru_cell(at::relu(at::linear(x[t], p[0], p[1])), state, p[2], p[3], p[4], p[5]) * there[t];
    outputs.push_back(at::linear(state, p[6], p[7]));
  }
  nets::GruPass pass;
  nets::forward(net, with_one(x), start, there, pass);
  for (std::int64_t t = 0; t < steps; ++t)
    REQUIRE(difference(pass.output[t], outputs[static_cast<std::size_t>(t)].detach()) < 1e-5);

  const at::Tensor d = at::randn({last - first + 1, rows, 4});
  at::Tensor loss = at::zeros({});
  for (std::int64_t t = first; t <= last; ++t)
    loss = loss + (outputs[static_cast<std::size_t>(t)] * d[t - first]).sum();
  loss.backward();
  nets::FlatParameters gradients = net.parameters().like();
  gradients.flat().fill_(99.0F);
  nets::backward(net, with_one(x), there, pass, first, last, d, gradients);
  const auto got = net.named_views(gradients);
  for (std::size_t i = 0; i < p.size(); ++i) {
    CAPTURE(got[i].first);
    REQUIRE(got[i].second.sizes() == p[i].sizes());
    CHECK(difference(got[i].second, p[i].grad()) < 2e-5);
  }
}

TEST_CASE("a recurrent Q-network from a file continues from its memory", "[unit]") {
  nets::GruNet net({30, 8, 4}, at::kCPU, nets::kQNetName);
  net.init(3);
  const auto policy = nets::make_policy(net.named(), nets::Head::kSoftmax, "test");
  CHECK(policy->answer() == nets::Policy::Answer::kValues);
  REQUIRE(policy->memory() == 8);
  at::manual_seed(2);
  const at::Tensor seen = with_one(at::randn({6, 6, 30})).view({6, 2, 3, 31});  // six steps of two teams
  nets::GruPass pass;
  nets::forward(net, seen.view({6, 6, 31}), at::zeros({6, 8}), at::ones({6, 6, 1}), pass);
  at::Tensor memory = at::zeros({2, 3, 8});
  for (std::int64_t t = 0; t < 6; ++t)
    CHECK(difference(policy->action_values_after(seen[t], memory), pass.output[t].view({2, 3, 4})) < 1e-5);
  CHECK(difference(memory, pass.steps[5].after.view({2, 3, 8})) < 1e-5);
  CHECK(difference(policy->action_values(seen[0]), pass.output[0].view({2, 3, 4})) < 1e-5);

  nets::NamedTensors broken = net.named();
  broken[0].first = "q_net.5.weight";
  CHECK_THROWS_AS(nets::make_policy(broken, nets::Head::kSoftmax, "test"), base::FileError);
}
