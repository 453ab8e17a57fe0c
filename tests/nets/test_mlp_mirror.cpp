#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "helpers.hpp"
#include "nets/net_mirror.hpp"

namespace {

using namespace snake_ddp;
using namespace snake_ddp::tests;

// The first two features change places, the third one its sign; the last two moves change places.
const std::vector<core::MirrorImage> kInputs = {{1}, {0}, {2, -1.0F}, {3}, {4}},
                                     kOutputs = {{0}, {1}, {3}, {2}};
at::Tensor mirrored_inputs(const at::Tensor& x) {
  at::Tensor out =
      at::stack({x.select(1, 1), x.select(1, 0), -x.select(1, 2), x.select(1, 3), x.select(1, 4)}, 1);
  return out;
}
at::Tensor mirrored_outputs(const at::Tensor& q) {
  return at::stack({q.select(1, 0), q.select(1, 1), q.select(1, 3), q.select(1, 2)}, 1);
}

nets::Mlp random_net(bool norm, std::int64_t hidden = 6) {
  nets::Mlp net({static_cast<std::int64_t>(kInputs.size()), hidden, 4, norm}, at::kCPU, "q_net");
  net.init(3);
  for (const auto& [name, tensor] : net.named()) at::Tensor(tensor).add_(at::rand_like(tensor) * 0.3);
  return net;
}

}  // namespace

TEST_CASE("a symmetric network's outputs for mirrored inputs are the mirrored outputs", "[unit]") {
  at::manual_seed(1);
  for (const bool norm : {false, true}) {
    nets::Mlp net = random_net(norm);
    nets::NetMirror mirror(net, {kInputs, kOutputs});
    const at::Tensor x = at::randn({40, 5});
    const auto output = [&](const at::Tensor& input) {
      nets::MlpPass pass;
      nets::forward(net, with_one(input), pass);
      return pass.output.clone();
    };
    REQUIRE_FALSE(mirror.is_symmetric(net.parameters().flat()));
    REQUIRE(difference(output(mirrored_inputs(x)), mirrored_outputs(output(x))) > 0.01);

    const at::Tensor before = net.parameters().flat().clone();
    mirror.make_symmetric(net.parameters().flat());
    CHECK(mirror.is_symmetric(net.parameters().flat()));
    CHECK(difference(output(mirrored_inputs(x)), mirrored_outputs(output(x))) < 1e-5);
    // A half of the weights is as it was.
    const double kept = at::eq(net.parameters().flat(), before).to(at::kDouble).mean().item<double>();
    CHECK(kept > 0.45);
    CHECK(kept < 0.75);  // the others', and the gaps between blocks
  }
}

TEST_CASE("an averaged gradient is that of the inputs and their mirror images together", "[parity]") {
  at::manual_seed(2);
  for (const bool norm : {false, true}) {
    nets::Mlp net = random_net(norm);
    nets::NetMirror mirror(net, {kInputs, kOutputs});
    mirror.make_symmetric(net.parameters().flat());
    const at::Tensor x = at::randn({40, 5}), d = at::randn({40, 4});
    nets::FlatParameters once = net.parameters().like(), both = net.parameters().like();
    nets::MlpPass pass;
    nets::forward(net, with_one(x), pass);
    nets::backward(net, with_one(x), d, pass, once);
    mirror.average(once.flat());
    CHECK(mirror.is_symmetric(once.flat()));

    const at::Tensor all = with_one(at::cat({x, mirrored_inputs(x)}));
    nets::forward(net, all, pass);
    nets::backward(net, all, at::cat({d, mirrored_outputs(d)}) * 0.5, pass, both);
    CHECK(difference(once.flat(), both.flat()) < 1e-5);
  }
}

TEST_CASE("a symmetric network's passes take half of the products, and return the same", "[parity]") {
  at::manual_seed(3);
  for (const bool norm : {false, true}) {
    for (const auto& [rows, hidden] : {std::pair{1, 6}, {40, 24}, {300, 64}, {600, 66}}) {
      CAPTURE(norm, rows, hidden);
      nets::Mlp plain = random_net(norm, hidden);
      nets::NetMirror(plain, {kInputs, kOutputs}).make_symmetric(plain.parameters().flat());
      nets::Mlp halved({5, hidden, 4, norm, kInputs}, at::kCPU, "q_net"),
          library({5, hidden, 4, norm, kInputs}, at::kCPU, "q_net", &nets::aten_backend());
      REQUIRE(halved.halves() != nullptr);
      REQUIRE(library.halves() == nullptr);
      std::vector<at::Tensor> gradients;
      at::Tensor inputs = at::randn({rows, 5});
      if (hidden != 24) inputs.mul_(at::rand({rows, 5}).gt(0.7));  // as a view, most of which is 0
      const at::Tensor x = with_one(inputs), d = at::randn({rows, 4});
      nets::MlpPass expected;
      nets::forward(plain, x, expected);
      for (nets::Mlp* net : {&plain, &halved, &library}) {
        net->parameters().flat().copy_(plain.parameters().flat());
        nets::NetMirror mirror(*net, {kInputs, kOutputs});
        nets::MlpPass pass, without_backward;
        nets::FlatParameters gradient = net->parameters().like();
        for (int call = 0; call < 2; ++call) {  // the second one in the buffers of the first
          nets::forward(*net, x, pass);
          CHECK(difference(pass.output, expected.output) < 1e-5);
          nets::backward(*net, x, d, pass, gradient);
          mirror.average(gradient.flat());
        }
        nets::forward(*net, x, without_backward, /*keep=*/false);
        CHECK(at::equal(without_backward.output, pass.output));
        CHECK(mirror.is_symmetric(gradient.flat()));
        gradients.push_back(gradient.flat());
      }
      CHECK(difference(gradients[1], gradients[0]) < 2e-5);
      CHECK(difference(gradients[2], gradients[0]) < 2e-5);
    }
  }
}

TEST_CASE("sums and differences of inputs that are their own images", "[unit]") {
  const kernels::Halves of = kernels::halves_of(kInputs);
  CHECK(of.sums.first == std::vector<std::int32_t>{0, 3, 4});
  CHECK(of.sums.place == std::vector<std::int32_t>{0, 0, -1, 1, 2});
  CHECK(of.sums.sign == std::vector<float>{1, 1, 1, 1, 1});
  CHECK(of.differences.first == std::vector<std::int32_t>{0, 2});
  CHECK(of.differences.place == std::vector<std::int32_t>{0, 0, 1, -1, -1});
  CHECK(of.differences.sign == std::vector<float>{1, -1, 1, 1, 1});
}
