#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "helpers.hpp"
#include "nets/mixer.hpp"

namespace {

using namespace snake_ddp;
using namespace snake_ddp::tests;

// The equations of docs/learners/qmix.md, for automatic differentiation.
at::Tensor plain(const std::vector<at::Tensor>& p, const at::Tensor& state, const at::Tensor& q,
                 std::int64_t e) {
  const std::int64_t agents = q.size(1);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    return at::mm(state, p[0].narrow(1, first * e, count * e));
  };
  const at::Tensor weights = part(0, agents).abs().view({-1, agents, e});
  const at::Tensor hidden = at::elu((q.unsqueeze(2) * weights).sum(1) + part(agents, 1));
  const at::Tensor value = at::mv(part(agents + 2, 1).relu(), p[1]) + p[2];
  return (hidden * part(agents + 1, 1).abs()).sum(1, true) + value.unsqueeze(1);
}

}  // namespace

TEST_CASE("a mixer's passes equal automatic differentiation", "[parity]") {
  at::manual_seed(4);
  const bool by_library = GENERATE(false, true);
  const auto [rows, state_size, embed] =
      GENERATE(std::tuple{70, 93, 32}, std::tuple{1, 4, 3}, std::tuple{9, 930, 20});
  CAPTURE(by_library, rows, state_size, embed);
  nets::Mixer mixer({state_size, 3, embed}, at::kCPU, by_library ? &nets::aten_backend() : nullptr);
  mixer.init(7);
  std::vector<at::Tensor> p;
  for (const auto& [name, tensor] : mixer.named()) p.push_back(tensor.clone().set_requires_grad(true));
  nets::MixerPass pass;
  nets::FlatParameters gradients = mixer.parameters().like();
  gradients.flat().fill_(99.0F);
  for (int call = 0; call < 2;
       ++call) {  // the second one in the buffers of the first, from a state with many zeros
    const at::Tensor features = at::randn({rows, state_size - 1});
    const at::Tensor state = with_one(features * at::rand_like(features).gt(call == 0 ? 0.0 : 0.7));
    const at::Tensor q = at::randn({rows, 3}).set_requires_grad(true), d = at::randn({rows, 1});
    const at::Tensor expected = plain(p, state, q, embed);
    nets::forward(mixer, state, q.detach(), pass);
    REQUIRE(difference(pass.output, expected.detach()) < 1e-5);
    for (at::Tensor& t : p) t.mutable_grad().reset();
    (expected * d).sum().backward();
    nets::backward(mixer, state, q.detach(), d, pass, gradients);
    CHECK(difference(pass.d_q, q.grad()) < 2e-5);
    const auto got = mixer.named_views(gradients);
    for (std::size_t i = 0; i < p.size(); ++i) {
      CAPTURE(got[i].first);
      CHECK(difference(got[i].second, p[i].grad()) < 2e-5);
    }
  }
}
