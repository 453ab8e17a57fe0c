#include "helpers.hpp"
#include "nets/bicnet.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "nets/backend.hpp"
#include "nets/policy.hpp"
#include "snake_ddp/core/error.hpp"

namespace {

using namespace snake_ddp;
using namespace snake_ddp::tests;

// The network layer by layer, with ATen's LSTM. features [B, 3, in] -> [B, 3, out]
at::Tensor plain_forward(const nets::NamedTensors& p, nets::Head head, const at::Tensor& features) {
  const at::Tensor first = at::linear(features, find(p, "prev_dense.0.weight"), find(p, "prev_dense.0.bias"));
  std::vector<at::Tensor> weights;
  for (const std::string end : {"_l0", "_l0_reverse"}) {
    for (const std::string name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
      weights.push_back(find(p, "comm_net.lstm." + name + end));
  }
  const at::Tensor start = at::zeros({2, features.size(0), first.size(2)}, features.options());
  const at::Tensor team =
      std::get<0>(at::lstm(first, {start, start}, weights, true, 1, 0.0, false, true, true));
  const at::Tensor hidden =
      at::relu(at::linear(team, find(p, "post_dense.0.weight"), find(p, "post_dense.0.bias")));
  const at::Tensor out = at::linear(hidden, find(p, "post_dense.2.weight"), find(p, "post_dense.2.bias"));
  if (head == nets::Head::kSoftmax) return at::softmax(out, 2);
  return head == nets::Head::kTanh ? at::tanh(out) : out;
}

at::Tensor with_constant(const at::Tensor& features) {
  return at::cat({features, at::ones({features.size(0), features.size(1), 1})}, 2);
}

at::Tensor swapped(const at::Tensor& t) { return t.transpose(0, 1).contiguous(); }

// A matrix with strided rows.
at::Tensor rows_apart(std::int64_t rows, std::int64_t columns) {
  return at::randn({rows, columns + 5}).narrow(1, 2, columns);
}

}  // namespace

TEST_CASE("BiCNet's passes equal automatic differentiation through ATen's LSTM", "[parity]") {
  at::manual_seed(7);
  for (const nets::Head head : {nets::Head::kIdentity, nets::Head::kSoftmax, nets::Head::kTanh}) {
    for (const std::int64_t boards : {1, 2, 37}) {
      for (const bool by_library : {false, true}) {
        CAPTURE(static_cast<int>(head), boards, by_library);
        const nets::BicnetShape shape{11, 52, 4, head, nets::BicnetRole::kActor};
        nets::BicnetNet net(shape, at::kCPU, by_library ? &nets::aten_backend() : nullptr);
        net.init(3);
        const at::Tensor features = at::randn({boards, 3, shape.in}) * 3;
        const at::Tensor d_output = at::randn({boards, 3, shape.out});

        nets::NamedTensors plain;
        for (const auto& [name, tensor] : net.named())
          plain.emplace_back(name, tensor.to(at::kDouble).contiguous().set_requires_grad(true));
        const at::Tensor plain_features = features.to(at::kDouble).set_requires_grad(true);
        const at::Tensor expected = plain_forward(plain, head, plain_features);
        (expected * d_output).sum().backward();

        nets::BicnetMaps maps;
        maps.refresh(net, true);
        nets::BicnetPass pass;
        const at::Tensor input = swapped(with_constant(features));
        nets::forward(net, maps, input, pass);
        CHECK(difference(swapped(pass.output), expected.detach()) < 1e-5);
        nets::FlatParameters gradients = net.parameters().like();
        gradients.flat().fill_(7.0F);  // overwritten, not added to
        nets::backward_parameters(net, maps, input, swapped(d_output), pass, gradients);
        for (const auto& [name, gradient] : net.named_views(gradients)) {
          CAPTURE(name);
          CHECK(difference(gradient, find(plain, name).grad()) < 1e-5);
        }

        nets::forward(net, maps, input, pass);
        at::Tensor d_columns;
        nets::backward_input(net, maps, swapped(d_output), pass, 2, 5, d_columns);
        CHECK(difference(swapped(d_columns), plain_features.grad().narrow(2, 2, 5)) < 1e-5);
      }
    }
  }
}

TEST_CASE("BiCNet's bits do not depend on the number of threads", "[unit]") {
  at::manual_seed(8);
  const nets::BicnetShape shape{11, 64, 4, nets::Head::kSoftmax, nets::BicnetRole::kActor};
  nets::BicnetNet net(shape, at::kCPU);
  net.init(3);
  const at::Tensor input = at::randn({3, 150, 12}), d_output = at::randn({3, 150, 4});
  const int threads_before = at::get_num_threads();
  std::vector<at::Tensor> outputs, gradients;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    nets::BicnetMaps maps;
    maps.refresh(net, true);
    nets::BicnetPass pass;
    nets::forward(net, maps, input, pass);
    outputs.push_back(pass.output.clone());
    nets::FlatParameters gradient = net.parameters().like();
    nets::backward_parameters(net, maps, input, d_output, pass, gradient);
    gradients.push_back(gradient.flat());
  }
  at::set_num_threads(threads_before);
  for (const std::size_t other : {1, 2}) {
    CHECK(at::equal(outputs[other], outputs[0]));
    CHECK(at::equal(gradients[other], gradients[0]));
  }
}

TEST_CASE("each snake's output sees the whole team", "[unit]") {
  nets::BicnetNet net({5, 16, 4, nets::Head::kIdentity, nets::BicnetRole::kActor}, at::kCPU);
  net.init(1);
  nets::BicnetMaps maps;
  maps.refresh(net, false);
  nets::BicnetPass pass;
  const at::Tensor input = at::ones({3, 1, 6});
  nets::forward(net, maps, input, pass);
  const at::Tensor before = pass.output.clone();
  for (std::int64_t snake = 0; snake < 3; ++snake) {
    at::Tensor other = input.clone();
    other[snake][0][0] = 2.0;
    nets::forward(net, maps, other, pass);
    for (std::int64_t seen_by = 0; seen_by < 3; ++seen_by)
      CHECK((pass.output[seen_by] - before[seen_by]).abs().max().item<float>() > 1e-5F);
  }
}

TEST_CASE("an LSTM cell equals ATen's operators, forward and backward", "[parity]") {
  at::manual_seed(5);
  const std::int64_t boards = 70, width = 19;
  for (const bool has_before : {false, true}) {
    for (const bool last : {false, true}) {
      for (const double spread : {1e-3, 1.0, 30.0}) {
        CAPTURE(has_before, last, spread);
        const auto start = [&] {
          return nets::CellStep{rows_apart(boards, 4 * width), rows_apart(boards, width),
                                rows_apart(boards, width),
                                has_before ? rows_apart(boards, width) : at::Tensor()};
        };
        nets::CellStep ours = start();
        ours.gates.mul_(spread);
        nets::CellStep plain = ours;
        plain.gates = ours.gates.clone();
        plain.c = ours.c.clone();
        plain.tanh_c = ours.tanh_c.clone();
        const at::Tensor h = rows_apart(boards, width), plain_h = at::empty({boards, width});
        nets::host_backend().lstm_step(ours, h);
        nets::aten_backend().lstm_step(plain, plain_h);
        CHECK(difference(h, plain_h) < 1e-6);
        CHECK(difference(ours.c, plain.c) < 1e-6);
        CHECK(difference(ours.gates, plain.gates) < 1e-6);

        const at::Tensor d_h = rows_apart(boards, width);
        const at::Tensor d_c = rows_apart(boards, width), plain_d_c = d_c.clone();
        nets::host_backend().lstm_step_back(ours, d_h, d_c, last);
        nets::aten_backend().lstm_step_back(plain, d_h, plain_d_c, last);
        CHECK(difference(ours.gates, plain.gates) < 1e-5);
        CHECK(difference(d_c, plain_d_c) < 1e-5);
      }
    }
  }
}

TEST_CASE("a cell saturates at any gate and propagates NaN", "[unit]") {
  const float large = 1e30F, nan = std::numeric_limits<float>::quiet_NaN();
  const nets::CellStep step{at::tensor({large, -large, large, large}).view({1, 4}), at::zeros({1, 1}),
                            at::zeros({1, 1}), at::ones({1, 1})};
  const at::Tensor h = at::zeros({1, 1});
  nets::host_backend().lstm_step(step, h);
  CHECK(at::allclose(step.gates, at::tensor({1.0F, 0.0F, 1.0F, 1.0F}).view({1, 4})));
  CHECK(h.item<float>() == Approx(std::tanh(1.0F)));
  step.gates.fill_(nan);
  nets::host_backend().lstm_step(step, h);
  CHECK(std::isnan(h.item<float>()));
}

TEST_CASE("BiCNet's initial weights are a function of the seed, within torch's bounds", "[unit]") {
  const nets::BicnetShape shape{34, 64, 1, nets::Head::kIdentity, nets::BicnetRole::kCritic};
  nets::BicnetNet a(shape, at::kCPU), b(shape, at::kCPU), c(shape, at::kCPU);
  a.init(5);
  b.init(5);
  c.init(6);
  CHECK(at::equal(a.parameters().flat(), b.parameters().flat()));
  CHECK_FALSE(at::equal(a.parameters().flat(), c.parameters().flat()));
  for (const auto& [name, tensor] : a.named()) {
    CAPTURE(name);
    const double fan_in = name.rfind("prev_dense", 0) == 0     ? 34
                          : name.rfind("post_dense.0", 0) == 0 ? 128
                                                               : 64;
    const double largest = tensor.abs().max().item<double>(), bound = 1.0 / std::sqrt(fan_in);
    CHECK(largest <= bound);
    if (tensor.numel() > 60) CHECK(largest > 0.9 * bound);
  }
}

TEST_CASE("an actor's file with an LSTM is played as BiCNet, a wrong one is refused", "[unit]") {
  at::manual_seed(2);
  nets::BicnetNet net({26, 8, 4, nets::Head::kSoftmax, nets::BicnetRole::kActor}, at::kCPU);
  net.init(1);
  const at::Tensor features = at::randn({5, 3, 26});
  for (const nets::Head head : {nets::Head::kSoftmax, nets::Head::kTanh}) {
    const auto actor = nets::make_policy(net.named(), head, "a.pth");
    CHECK(nets::features_of(net.named(), "a.pth") == 26);
    CHECK(difference(actor->action_values(with_constant(features)),
                     plain_forward(net.named(), head, features)) < 1e-5);
  }
  nets::NamedTensors one_way;
  for (const auto& item : net.named()) {
    if (item.first.find("_reverse") == std::string::npos) one_way.push_back(item);
  }
  CHECK_THROWS_WITH(nets::make_policy(one_way, nets::Head::kSoftmax, "b.pth"),
                    Catch::Contains("b.pth has no tensor \"comm_net.lstm.weight_ih_l0_reverse\""));
  nets::BicnetNet critic({30, 8, 1, nets::Head::kIdentity, nets::BicnetRole::kCritic}, at::kCPU);
  CHECK_THROWS_AS(nets::make_policy(critic.named(), nets::Head::kSoftmax, "c.pth"), core::FileError);
}
