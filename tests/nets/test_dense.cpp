#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "helpers.hpp"
#include "nets/dense.hpp"
#include "nets/policy.hpp"
#include "snake_ddp/core/error.hpp"

namespace {

using namespace snake_ddp;
using namespace snake_ddp::tests;

// The network layer by layer.
at::Tensor plain_forward(const nets::NamedTensors& p, const nets::DenseShape& shape,
                         const at::Tensor& features) {
  const at::Tensor first = at::linear(features, find(p, "prev_dense.0.weight"), find(p, "prev_dense.0.bias"));
  at::Tensor second = at::linear(first, find(p, "post_dense.0.weight"), find(p, "post_dense.0.bias"));
  if (shape.layer_norm) {
    second =
        at::layer_norm(second, {shape.hidden}, find(p, "post_norm.weight"), find(p, "post_norm.bias"), 1e-5);
  }
  const at::Tensor out =
      at::linear(at::relu(second), find(p, "post_dense.2.weight"), find(p, "post_dense.2.bias"));
  if (shape.head == nets::Head::kSoftmax) return at::softmax(out, 1);
  return shape.head == nets::Head::kTanh ? at::tanh(out) : out;
}

}  // namespace

TEST_CASE("forward and backward equal automatic differentiation through the plain layers", "[parity]") {
  at::manual_seed(7);
  const bool by_library = GENERATE(false, true), layer_norm = GENERATE(false, true);
  const nets::Head head = GENERATE(nets::Head::kIdentity, nets::Head::kSoftmax, nets::Head::kTanh);
  const std::int64_t actions = GENERATE(0, 4), hidden = GENERATE(5, 24, 256);
  const double zeros = GENERATE(0.0, 0.9);  // most of a view is 0
  for (const std::int64_t rows : {1, 3, 65}) {
    CAPTURE(by_library, static_cast<int>(head), layer_norm, actions, hidden, zeros, rows);
    const nets::DenseShape shape{11, hidden, 4, head, layer_norm, actions};
    nets::DenseNet net(shape, at::kCPU, by_library ? &nets::aten_backend() : nullptr);
    net.init(3);
    if (layer_norm) {
      find(net.named(), "post_norm.weight").uniform_(0.5, 1.5);
      find(net.named(), "post_norm.bias").uniform_(-0.5, 0.5);
    }
    const at::Tensor features =
        at::randn({rows, shape.in}) * (at::rand({rows, shape.in}) >= zeros).to(at::kFloat);
    const at::Tensor action = at::rand({rows, actions}), d_output = at::randn({rows, shape.out});

    nets::NamedTensors plain;
    for (const auto& [name, tensor] : net.named()) {
      plain.emplace_back(name, tensor.clone().contiguous().set_requires_grad(true));
    }
    const at::Tensor plain_input = at::cat({features, action}, 1).set_requires_grad(true);
    const at::Tensor expected = plain_forward(plain, shape, plain_input);
    (expected * d_output).sum().backward();

    nets::Folded folded(net);
    folded.refresh(net);
    nets::DensePass pass;
    const at::Tensor observation = at::cat({features, at::ones({rows, 1})}, 1);
    nets::forward(net, folded, observation, action, pass);
    CHECK(difference(pass.output, expected.detach()) < 1e-5);

    nets::FlatParameters gradients = net.parameters().like();
    nets::FoldedGradient sums(net);
    // Half of it twice: gradients are added to.
    for (int half = 0; half < 2; ++half) {
      nets::forward(net, folded, observation, action, pass);
      nets::backward_parameters(net, observation, action, 0.5 * d_output, pass, sums);
    }
    nets::unfold(net, sums, gradients);
    for (const auto& [name, gradient] : net.named_views(gradients)) {
      CAPTURE(name);
      CHECK(difference(gradient, find(plain, name).grad()) < 3e-5);
    }
    if (actions == 0) continue;
    at::Tensor d_action;
    nets::forward(net, folded, observation, action, pass);
    nets::backward_action(net, folded, d_output, pass, d_action);
    CHECK(difference(d_action, plain_input.grad().narrow(1, shape.in, actions)) < 2e-5);
  }
}

TEST_CASE("the values of all moves are those of one-hot actions", "[parity]") {
  at::manual_seed(8);
  const bool by_library = GENERATE(false, true), layer_norm = GENERATE(false, true);
  const nets::DenseShape shape{11, 24, 1, nets::Head::kIdentity, layer_norm, 4};
  nets::DenseNet net(shape, at::kCPU, by_library ? &nets::aten_backend() : nullptr);
  net.init(3);
  nets::Folded folded(net);
  folded.refresh(net);
  nets::DensePass pass;
  const at::Tensor observation = at::randn({9, 12});
  at::Tensor values;
  nets::forward_moves(net, folded, observation, pass, values);
  REQUIRE(values.sizes().vec() == std::vector<std::int64_t>{9, 4});
  for (std::int64_t move = 0; move < 4; ++move) {
    const at::Tensor action = at::zeros({9, 4});
    action.select(1, move).fill_(1);
    nets::forward(net, folded, observation, action, pass);
    CHECK(difference(pass.output.select(1, 0), values.select(1, move)) < 1e-5);
  }
}

TEST_CASE("a row's output has the same bits alone and in any batch", "[unit]") {
  at::manual_seed(9);
  const nets::Head head = GENERATE(nets::Head::kSoftmax, nets::Head::kTanh);
  nets::DenseNet net({11, 24, 4, head, false}, at::kCPU);
  net.init(3);
  nets::Folded folded(net);
  folded.refresh(net);
  nets::DensePass pass;
  const at::Tensor all = at::randn({97, 12});
  nets::forward(net, folded, all, {}, pass);
  const at::Tensor together = pass.output.clone();
  for (const std::int64_t row : {0, 50, 96}) {
    nets::forward(net, folded, all.narrow(0, row, 1), {}, pass);
    CHECK(at::equal(pass.output[0], together[row]));
  }
}

TEST_CASE("initial weights are a function of the seed, within torch's bounds", "[unit]") {
  const nets::DenseShape shape{30, 256, 4, nets::Head::kSoftmax, false};
  nets::DenseNet a(shape, at::kCPU), b(shape, at::kCPU), c(shape, at::kCPU);
  a.init(5);
  b.init(5);
  c.init(6);
  CHECK(at::equal(a.parameters().flat(), b.parameters().flat()));
  CHECK_FALSE(at::equal(a.parameters().flat(), c.parameters().flat()));
  for (const auto& [name, tensor] : a.named()) {
    CAPTURE(name);
    const double bound = 1.0 / std::sqrt(name.rfind("prev_dense", 0) == 0 ? 30.0 : 256.0);
    CHECK(tensor.abs().max().item<double>() <= bound);
    CHECK(tensor.abs().max().item<double>() > 0.3 * bound);
  }
}

TEST_CASE("names and shapes are those of the reference", "[unit]") {
  const nets::DenseNet net({30, 256, 4, nets::Head::kSoftmax, false}, at::kCPU);
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> expected = {
      {"prev_dense.0.weight", {256, 30}},  {"prev_dense.0.bias", {256}},
      {"post_dense.0.weight", {256, 256}}, {"post_dense.0.bias", {256}},
      {"post_dense.2.weight", {4, 256}},   {"post_dense.2.bias", {4}}};
  const nets::NamedTensors got = net.named();
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i].first == expected[i].first);
    CHECK(got[i].second.sizes().vec() == expected[i].second);
  }
}

TEST_CASE("weights of another shape or with other names are refused and nothing is copied", "[unit]") {
  nets::DenseNet net({30, 16, 4, nets::Head::kSoftmax, false}, at::kCPU);
  net.init(1);
  const at::Tensor before = net.parameters().flat().clone();
  nets::NamedTensors items;
  for (const auto& [name, tensor] : net.named()) items.emplace_back(name, at::zeros_like(tensor));

  nets::NamedTensors missing(items.begin(), items.end() - 1);
  CHECK_THROWS_WITH(nets::copy_state(missing, net.named(), "a.pth"),
                    Catch::Contains("a.pth has no tensor \"post_dense.2.bias\""));
  nets::NamedTensors wrong = items;
  wrong[0].second = at::zeros({16, 26});
  CHECK_THROWS_WITH(nets::copy_state(wrong, net.named(), "a.pth"),
                    Catch::Contains("[16, 26]") && Catch::Contains("[16, 30]"));
  nets::NamedTensors more = items;
  more.emplace_back("comm_net.lstm.weight_ih_l0", at::zeros({1}));
  CHECK_THROWS_AS(nets::copy_state(more, net.named(), "a.pth"), core::FileError);
  CHECK(at::equal(net.parameters().flat(), before));
  nets::copy_state(items, net.named(), "a.pth");
  CHECK(net.parameters().flat().abs().max().item<float>() == 0.0F);
}

TEST_CASE("the features of an actor's file are recognised, and other files rejected", "[unit]") {
  nets::DenseNet net({26, 8, 4, nets::Head::kSoftmax, false}, at::kCPU);
  net.init(1);
  const auto actor = nets::make_policy(net.named(), nets::Head::kSoftmax, "a.pth");
  CHECK(nets::features_of(net.named(), "a.pth") == 26);
  const at::Tensor values = actor->action_values(at::ones({5, 3, 27}));
  CHECK(values.sizes().vec() == std::vector<std::int64_t>{5, 3, 4});
  CHECK(values.sum(2).sub(1).abs().max().item<float>() < 1e-6F);
  CHECK_THROWS_AS(nets::make_policy({{"weight", at::zeros({2, 2})}}, nets::Head::kSoftmax, "b.pth"),
                  core::FileError);
}
