// BiCNet written down plainly, with ATen's LSTM, automatic differentiation and per-tensor Adam, against the flat one.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "learners/bicnet.hpp"
#include "plain_parameters.hpp"

namespace {

using namespace snake_ddp;

struct PlainBicnet : tests::PlainParameters {
  nets::BicnetShape shape;

  explicit PlainBicnet(const nets::BicnetNet& net) : PlainParameters(net.named()), shape(net.shape()) {}

  // [B, 3, in] -> [B, 3, out]
  at::Tensor operator()(const at::Tensor& x) const {
    const bool critic = shape.role == nets::BicnetRole::kCritic;
    const std::size_t first = critic ? 8 : 0, lstm = critic ? 0 : 2;
    const at::Tensor start = at::zeros({2, x.size(0), shape.hidden});
    const std::vector<at::Tensor> weights(p.begin() + static_cast<std::ptrdiff_t>(lstm),
                                          p.begin() + static_cast<std::ptrdiff_t>(lstm + 8));
    const at::Tensor team = std::get<0>(
        at::lstm(at::linear(x, p[first], p[first + 1]), {start, start}, weights, /*has_biases=*/true,
                 /*num_layers=*/1, /*dropout=*/0.0, /*train=*/true, /*bidirectional=*/true,
                 /*batch_first=*/true));
    const at::Tensor out = at::linear(at::relu(at::linear(team, p[10], p[11])), p[12], p[13]);
    if (shape.head == nets::Head::kSoftmax) return at::softmax(out, 2);
    return shape.head == nets::Head::kTanh ? at::tanh(out) : out;
  }
};

void check_bicnet(const learners::LearnerOptions& options) {
  learners::Bicnet learner(options);
  PlainBicnet actor(learner.actor()), critic(learner.critic()), actor_target(actor), critic_target(critic);
  at::manual_seed(3);
  const std::int64_t batch_size = 20, d = options.features;
  for (int u = 1; u <= 20; ++u) {
    const at::Tensor s = at::randn({batch_size, 3, d}), s2 = at::randn({batch_size, 3, d});
    const at::Tensor a = at::rand({batch_size, 3, 4}), r = at::randn({batch_size, 3});
    const at::Tensor discount = (at::rand({batch_size, 3}) < 0.9).to(at::kFloat) * 0.97;
    const at::Tensor one = at::ones({batch_size, 3, 1});
    learners::Batch batch{{at::cat({s, one}, 2), a, r, at::cat({s2, one}, 2), discount}};
    learner.update(batch, [](at::Tensor&) {});

    const at::Tensor q2 = critic_target(at::cat({s2, actor_target(s2)}, 2)).detach();
    const at::Tensor y = r.unsqueeze(2) + discount.unsqueeze(2) * q2;
    critic.clear();
    (critic(at::cat({s, a}, 2)) - y).pow(2).mean().backward();
    critic.step(options.c_lr, u);
    actor.clear();
    (-critic(at::cat({s, actor(s)}, 2)).mean()).backward();
    actor.step(options.a_lr, u);
    actor_target.follow(actor, options.tau);
    critic_target.follow(critic, options.tau);
  }
  actor.compare(learner.actor().named());
  critic.compare(learner.critic().named());
  actor_target.compare(learner.actor_target().named());
  critic_target.compare(learner.critic_target().named());
}

}  // namespace

TEST_CASE("twenty updates equal BiCNet written with automatic differentiation", "[parity]") {
  for (const std::string activation : {"softmax", "tanh"}) {
    for (const bool by_library : {false, true}) {
      CAPTURE(activation, by_library);
      learners::LearnerOptions options;
      options.features = 12;
      options.hidden_size = 20;
      options.output_activation = activation;
      options.backend = by_library ? &nets::aten_backend() : nullptr;
      check_bicnet(options);
    }
  }
}
