#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "helpers.hpp"
#include "nets/gru_net.hpp"
#include "nets/policy.hpp"
#include "snake_ddp/core/error.hpp"

namespace {

using namespace snake_ddp;
using namespace snake_ddp::tests;

}  // namespace

TEST_CASE("a recurrent network's passes equal automatic differentiation through ATen's GRU", "[parity]") {
  at::manual_seed(1);
  const bool by_library = GENERATE(false, true), from_nothing = GENERATE(false, true);
  const auto [rows, in, hidden] = GENERATE(std::tuple{9, 11, 8}, std::tuple{1, 5, 3}, std::tuple{70, 61, 48});
  const std::int64_t steps = 6, first = GENERATE(0, 2), last = 4;
  CAPTURE(by_library, from_nothing, rows, hidden, first);
  nets::GruNet net({in, hidden, 4}, at::kCPU, "q_net", by_library ? &nets::aten_backend() : nullptr);
  net.init(7);
  std::vector<at::Tensor> p;
  for (const auto& [name, tensor] : net.named()) p.push_back(tensor.clone().set_requires_grad(true));
  // Some rows begin late: the earlier state must have no effect.
  at::Tensor valid = at::ones({steps, rows, 1});
  valid.narrow(1, 0, rows / 3).narrow(0, 0, 1).zero_();
  valid.narrow(1, rows / 3, rows / 3).narrow(0, 0, 4).zero_();
  nets::GruPass pass;
  nets::FlatParameters gradients = net.parameters().like();
  gradients.flat().fill_(99.0F);
  for (int call = 0; call < 2; ++call) {  // the second one in the buffers of the first
    const at::Tensor x =
        at::randn({steps, rows, in}).mul_(at::rand({steps, rows, in}).gt(call == 0 ? 0.0 : 0.7));
    const at::Tensor start = at::randn({rows, hidden}).mul_(from_nothing ? 0 : 1);
    std::vector<at::Tensor> outputs;
    at::Tensor state = start;
    for (std::int64_t t = 0; t < steps; ++t) {
      if (t == first) state = state.detach();
      state = at::gru_cell(at::relu(at::linear(x[t], p[0], p[1])), state, p[2], p[3], p[4], p[5]) * valid[t];
      outputs.push_back(at::linear(state, p[6], p[7]));
    }
    nets::forward(net, with_one(x), from_nothing ? at::Tensor() : start, valid, pass, first);
    REQUIRE(pass.output.size(0) == steps - first);
    for (std::int64_t t = first; t < steps; ++t) {
      const at::Tensor& expected = outputs[static_cast<std::size_t>(t)];
      REQUIRE(difference(pass.output[t - first], expected.detach()) < 1e-5);
    }

    nets::GruPass only_forward;
    nets::forward(net, with_one(x), from_nothing ? at::Tensor() : start, valid, only_forward, first, false);
    CHECK(at::equal(only_forward.output, pass.output));

    const at::Tensor d = at::randn({last - first + 1, rows, 4});
    at::Tensor loss = at::zeros({});
    for (std::int64_t t = first; t <= last; ++t)
      loss = loss + (outputs[static_cast<std::size_t>(t)] * d[t - first]).sum();
    for (at::Tensor& t : p) t.mutable_grad().reset();
    loss.backward();
    nets::backward(net, with_one(x), valid, pass, last, d, gradients);
    const auto got = net.named_views(gradients);
    for (std::size_t i = 0; i < p.size(); ++i) {
      CAPTURE(got[i].first);
      REQUIRE(got[i].second.sizes() == p[i].sizes());
      CHECK(difference(got[i].second, p[i].grad()) < 2e-5);
    }
  }
}

TEST_CASE("a recurrent network's bits do not depend on threads or on the rows beside", "[unit]") {
  at::manual_seed(3);
  const std::int64_t steps = 3, rows = 150, hidden = 40;
  nets::GruNet net({21, hidden, 4}, at::kCPU, "q_net");
  net.init(7);
  const at::Tensor x = with_one(at::randn({steps, rows, 21})), valid = at::ones({steps, rows, 1});
  const at::Tensor d = at::randn({steps, rows, 4});
  const int threads_before = at::get_num_threads();
  std::vector<at::Tensor> outputs, gradients;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    nets::GruPass pass;
    nets::FlatParameters gradient = net.parameters().like();
    nets::forward(net, x, {}, valid, pass);
    outputs.push_back(pass.output.clone());
    nets::backward(net, x, valid, pass, steps - 1, d, gradient);
    gradients.push_back(gradient.flat());
  }
  at::set_num_threads(threads_before);
  for (const std::size_t other : {1, 2}) {
    CHECK(at::equal(outputs[other], outputs[0]));
    CHECK(at::equal(gradients[other], gradients[0]));
  }
  // Five of the rows alone, step after step as in play.
  nets::GruPass pass;
  at::Tensor memory = at::zeros({1, 5, hidden});
  for (std::int64_t t = 0; t < steps; ++t) {
    nets::step(net, x[t].narrow(0, 70, 5).unsqueeze(0), memory, pass);
    CHECK(at::equal(pass.output[0], outputs[0][t].narrow(0, 70, 5)));
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
  CHECK(difference(memory, pass.states[6].view({2, 3, 8})) < 1e-5);
  CHECK(difference(policy->action_values(seen[0]), pass.output[0].view({2, 3, 4})) < 1e-5);

  nets::NamedTensors broken = net.named();
  broken[0].first = "q_net.5.weight";
  CHECK_THROWS_AS(nets::make_policy(broken, nets::Head::kSoftmax, "test"), core::FileError);
}
