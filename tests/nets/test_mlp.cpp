#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "helpers.hpp"
#include "nets/mlp.hpp"
#include "nets/net_mirror.hpp"
#include "nets/precision.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/kernels/layer_norm.hpp"

namespace {

using namespace snake_ddp;
using namespace snake_ddp::tests;

// The same network with ATen's operators, for automatic differentiation.
at::Tensor plain(const std::vector<at::Tensor>& p, bool norm, at::Tensor x) {
  std::size_t at = 0;
  for (int layer = 0; layer < 2; ++layer) {
    x = at::linear(x, p[at], p[at + 1]);
    if (norm) x = at::layer_norm(x, {x.size(1)}, p[at + 2], p[at + 3], 1e-5);
    x = at::relu(x);
    at += norm ? 4 : 2;
  }
  return at::linear(x, p[at], p[at + 1]);
}

}  // namespace

TEST_CASE("an Mlp's passes equal automatic differentiation", "[parity]") {
  at::manual_seed(1);
  for (const auto& [norm, by_library] :
       {std::pair{true, false}, {false, false}, {true, true}, {false, true}}) {
    for (const auto& [rows, in, hidden] :
         {std::tuple{70, 277, 256}, std::tuple{1, 5, 3}, std::tuple{33, 30, 24}, std::tuple{600, 30, 32}}) {
      CAPTURE(norm, by_library, rows, in, hidden);
      nets::Mlp net({in, hidden, 4, norm}, at::kCPU, "q_net", by_library ? &nets::aten_backend() : nullptr);
      net.init(7);
      net.parameters().flat().add_(at::rand_like(net.parameters().flat()) * 0.02);  // norms away from 1 and 0
      std::vector<at::Tensor> p;
      for (const auto& [name, tensor] : net.named()) p.push_back(tensor.clone().set_requires_grad(true));
      nets::MlpPass pass;
      nets::FlatParameters gradients = net.parameters().like();
      gradients.flat().fill_(99.0F);
      for (int call = 0; call < 2; ++call) {  // the second one in the buffers of the first
        const at::Tensor x = at::randn({rows, in}), d = at::randn({rows, 4});
        const at::Tensor expected = plain(p, norm, x);
        nets::forward(net, with_one(x), pass);
        REQUIRE(difference(pass.output, expected.detach()) < 1e-5);
        nets::MlpPass only_forward;
        nets::forward(net, with_one(x), only_forward, /*keep=*/false);
        CHECK(at::equal(only_forward.output, pass.output));
        nets::backward(net, with_one(x), d, pass, gradients);
        for (at::Tensor& t : p) t.mutable_grad().reset();
        (expected * d).sum().backward();
        const auto got = net.named_views(gradients);
        for (std::size_t i = 0; i < p.size(); ++i) {
          CAPTURE(got[i].first);
          REQUIRE(got[i].second.sizes() == p[i].sizes());
          CHECK(difference(got[i].second, p[i].grad()) < 2e-5);
        }
      }
    }
  }
}

TEST_CASE("an Mlp in bfloat16 is nearly the same network", "[parity]") {
  const bool mostly_zero = GENERATE(false, true);
  CAPTURE(mostly_zero);
  at::manual_seed(2);
  // Instructions that this processor does not have are emulated.
  for (const auto& [instructions, symmetric] : {std::pair{core::Bf16By::kTiles, false},
                                                {core::Bf16By::kTiles, true},
                                                {core::Bf16By::kVectors, false},
                                                {core::Bf16By::kVectors, true}}) {
    CAPTURE(static_cast<int>(instructions), symmetric);
    nets::MlpShape shape{30, 64, 4, true};
    for (int k = 0; symmetric && k < 30; ++k) shape.mirrored_inputs.push_back({29 - k, 1.0F});
    nets::MlpShape usual_shape = shape;
    if (instructions == core::Bf16By::kTiles) usual_shape.mirrored_inputs.clear();
    const nets::Mlp usual(usual_shape, at::kCPU, "q_net");
    nets::set_product_precision(nets::Precision::kBf16, instructions);
    nets::Mlp net(shape, at::kCPU, "q_net");
    nets::set_product_precision(nets::Precision::kFloat32);
    REQUIRE(net.in_bf16());
    REQUIRE((net.halves() != nullptr) == (symmetric && instructions == core::Bf16By::kVectors));
    REQUIRE_FALSE(usual.in_bf16());
    net.init(7);
    if (symmetric)
      nets::NetMirror(net, {shape.mirrored_inputs, {{0}, {2}, {1}, {3}}})
          .make_symmetric(net.parameters().flat());
    at::Tensor(usual.parameters().flat()).copy_(net.parameters().flat());
    const at::Tensor drawn = at::randn({300, 30}), d = at::randn({300, 4}),
                     x = with_one(mostly_zero ? drawn * at::rand({300, 30}).lt(0.2) : drawn);
    nets::MlpPass pass, usual_pass, few;
    nets::FlatParameters gradients = net.parameters().like(), usual_gradients = gradients.like();
    nets::forward(net, x, pass);
    nets::forward(usual, x, usual_pass);
    const double off = difference(pass.output, usual_pass.output);
    CHECK(off > 1e-5);
    CHECK(off < 0.02);
    nets::forward(net, x.narrow(0, 290, 10), few, /*keep=*/false);
    CHECK(at::equal(few.output, pass.output.narrow(0, 290, 10)));
    nets::backward(net, x, d, pass, gradients);
    nets::backward(usual, x, d, usual_pass, usual_gradients);
    const auto got = net.named_views(gradients), wanted = usual.named_views(usual_gradients);
    for (std::size_t i = 0; i < got.size(); ++i) {
      CAPTURE(got[i].first);
      CHECK((got[i].second - wanted[i].second).norm().item<double>() <
            0.12 * wanted[i].second.norm().item<double>());
    }
  }
}

TEST_CASE("layer norm with halves exchanged and without equals ATen's", "[property]") {
  constexpr std::int64_t kRows = 5, kWidth = 256;
  const at::Tensor z = at::randn({kRows, kWidth}), bias = at::randn({kWidth}), gain = at::randn({kWidth}),
                   shift = at::randn({kWidth});
  const auto exchanged = [](const at::Tensor& rows) {
    const auto halves = rows.chunk(2, 1);
    return at::cat({halves[0] + halves[1], halves[0] - halves[1]}, 1);
  };
  for (const bool halved : {false, true}) {
    CAPTURE(halved);
    const at::Tensor wanted = at::relu(
        at::layer_norm((halved ? exchanged(z) : z) + bias, {kWidth}, gain, shift, kernels::kNormEpsilon));
    const auto run = [&](at::Tensor normal, at::Tensor out, float* sums) {
      const at::Tensor inverse = at::empty({kRows});
      kernels::norm_relu(kRows, kWidth, bias.data_ptr<float>(), gain.data_ptr<float>(),
                         shift.data_ptr<float>(), normal.data_ptr<float>(), inverse.data_ptr<float>(),
                         out.data_ptr<float>(), halved, sums);
      return out;
    };
    const at::Tensor normal = z.clone(), sums = at::empty_like(z);
    const at::Tensor out = run(normal, at::empty_like(z), sums.data_ptr<float>());
    CHECK(difference(out, wanted) < 1e-5);
    CHECK(difference(at::relu(normal * gain + shift), wanted) < 1e-5);
    CHECK(at::equal(sums, exchanged(out)));
    const at::Tensor in_place = z.clone(), sums_in_place = z.clone();
    CHECK(at::equal(run(in_place, in_place, nullptr), out));
    CHECK(at::equal(run(sums_in_place, sums_in_place, sums_in_place.data_ptr<float>()), sums));
  }
}

TEST_CASE("four outputs have the same bits as fewer of them", "[property]") {
  for (const std::int64_t width : {64, 256, 300}) {
    const at::Tensor hidden = at::randn({7, width}), weight = at::randn({4, width}), bias = at::randn({4});
    const auto outputs = [&](std::int64_t count) {
      const at::Tensor out = at::empty({7, count});
      kernels::few_outputs(7, width, count, hidden.data_ptr<float>(), weight.data_ptr<float>(),
                           bias.data_ptr<float>(), out.data_ptr<float>());
      return out;
    };
    CHECK(at::equal(outputs(4).narrow(1, 0, 3), outputs(3)));
    CHECK(difference(outputs(4), at::addmm(bias, hidden, weight.t())) < 1e-4);
  }
}

TEST_CASE("a row that does not vary is normalised to zero, and NaN stays NaN", "[unit]") {
  std::vector<float> z(2 * 20, 3.0F), bias(20, 0.5F), gain(20, 2.0F), shift(20, 0.25F), inverse(2), out(40);
  z[25] = NAN;
  kernels::norm_relu(2, 20, bias.data(), gain.data(), shift.data(), z.data(), inverse.data(), out.data());
  for (std::size_t j = 0; j < 20; ++j) CHECK(out[j] == Approx(0.25F));
  CHECK(inverse[0] == Approx(1 / std::sqrt(1e-5)));
  CHECK(std::isnan(z[39]));
}

TEST_CASE("an Mlp's names and shapes are those of torch.nn, and determine its shape", "[unit]") {
  const nets::Mlp net({277, 64, 4, true}, at::kCPU, "q_net");
  const auto named = net.named();
  const std::vector<std::string> names = {"q_net.0.weight", "q_net.0.bias", "norm_0.weight", "norm_0.bias",
                                          "q_net.1.weight", "q_net.1.bias", "norm_1.weight", "norm_1.bias",
                                          "q_net.2.weight", "q_net.2.bias"};
  REQUIRE(named.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) CHECK(named[i].first == names[i]);
  CHECK(named[0].second.sizes() == at::IntArrayRef({64, 277}));
  CHECK(named[8].second.sizes() == at::IntArrayRef({4, 64}));
  const nets::MlpShape shape = nets::mlp_shape_of(named, "q_net", "test");
  CHECK(shape.in == 277);
  CHECK(shape.hidden == 64);
  CHECK(shape.out == 4);
  CHECK(shape.layer_norm);
  CHECK_THROWS_AS(nets::mlp_shape_of(named, "other", "test"), core::FileError);
}
