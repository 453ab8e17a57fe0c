// DDPG written down plainly with automatic differentiation and per-tensor Adam, against the flat one.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "learners/ddpg.hpp"
#include "plain_parameters.hpp"

namespace {

using namespace snake_ddp;

struct PlainDense : tests::PlainParameters {  // prev w, b; post0 w, b; post2 w, b; norm w, b
  nets::Head head;

  PlainDense(const nets::DenseNet& net) : PlainParameters(net.named()), head(net.shape().head) {}
  at::Tensor operator()(const at::Tensor& x) const {
    at::Tensor h = at::linear(at::linear(x, p[0], p[1]), p[2], p[3]);
    if (p.size() > 6) h = at::layer_norm(h, {h.size(1)}, p[6], p[7], 1e-5);
    const at::Tensor out = at::linear(at::relu(h), p[4], p[5]);
    if (head == nets::Head::kSoftmax) return at::softmax(out, 1);
    return head == nets::Head::kTanh ? at::tanh(out) : out;
  }
};

void check_ddpg(const learners::LearnerOptions& options) {
  learners::Ddpg learner(options);
  PlainDense actor(learner.actor()), actor_target(actor), critic(learner.critic()), critic_target(critic);
  at::manual_seed(3);
  const std::int64_t batch_size = 37, d = options.features;
  for (int u = 1; u <= 20; ++u) {
    const at::Tensor s = at::randn({batch_size, 3, d}), s2 = at::randn({batch_size, 3, d});
    const at::Tensor a = at::rand({batch_size, 3, 4}), r = at::randn({batch_size, 3});
    const at::Tensor discount = (at::rand({batch_size, 3}) < 0.9).to(at::kFloat) * 0.97;
    const at::Tensor one = at::ones({batch_size, 3, 1});
    learners::Batch batch{{at::cat({s, one}, 2), a, r, at::cat({s2, one}, 2), discount}};
    learner.update(batch, [](at::Tensor&) {});

    const auto rows = [](const at::Tensor& t) { return t.reshape({-1, t.size(-1)}); };
    const at::Tensor x = rows(s), x2 = rows(s2);
    // The value of an action vector: the critic at that vector, or the expectation over its moves.
    const auto value = [&](const PlainDense& of, const at::Tensor& states, const at::Tensor& actions) {
      if (!options.expected_value) return of(at::cat({states, actions}, 1));
      at::Tensor sum = at::zeros({states.size(0), 1});
      for (std::int64_t i = 0; i < 4; ++i) {
        const at::Tensor move = at::one_hot(at::full({states.size(0)}, i, at::kLong), 4).to(at::kFloat);
        sum = sum + actions.narrow(1, i, 1) * of(at::cat({states, move}, 1));
      }
      return sum;
    };
    const at::Tensor q2 = value(critic_target, x2, actor_target(x2)).detach();
    const at::Tensor y = r.reshape({-1, 1}) + discount.reshape({-1, 1}) * q2;
    critic.clear();
    (critic(at::cat({x, rows(a)}, 1)) - y).pow(2).mean().backward();
    critic.step(options.c_lr, u);
    actor.clear();
    (-value(critic, x, actor(x)).mean()).backward();
    actor.step(options.a_lr, u);
    actor_target.follow(actor, options.tau);
    critic_target.follow(critic, options.tau);
  }
  actor.compare(learner.actor().named());
  actor_target.compare(learner.actor_target().named());
  critic.compare(learner.critic().named());
  critic_target.compare(learner.critic_target().named());
}

}  // namespace

TEST_CASE("twenty updates equal DDPG written with automatic differentiation", "[parity]") {
  for (const bool by_library : {false, true}) {
    for (const std::string activation : {"softmax", "tanh"}) {
      for (const bool layer_norm : {false, true}) {
        for (const bool expected_value : {false, true}) {
          CAPTURE(by_library, activation, layer_norm, expected_value);
          learners::LearnerOptions options;
          options.features = 12;
          options.hidden_size = 20;
          options.output_activation = activation;
          options.layer_norm = layer_norm;
          options.expected_value = expected_value;
          options.backend = by_library ? &nets::aten_backend() : nullptr;
          check_ddpg(options);
        }
      }
    }
  }
}

TEST_CASE("an update averages two gradients, each shorter than its network's parameters", "[unit]") {
  learners::LearnerOptions options;
  options.features = 12;
  options.hidden_size = 64;
  learners::Ddpg learner(options);
  const at::Tensor observation = at::ones({4, 3, 13});
  std::vector<std::int64_t> lengths;
  learner.update({{observation, at::rand({4, 3, 4}), at::rand({4, 3}), observation, at::rand({4, 3})}},
                 [&](at::Tensor& flat) { lengths.push_back(flat.numel()); });
  REQUIRE(lengths.size() == 2);
  // Parameters' gradients are linear in what is averaged.
  CHECK(lengths[0] >= (12 + 4 + 1 + 1) * 64);
  CHECK(lengths[0] < learner.critic().parameters().flat().numel());
  CHECK(lengths[1] >= (12 + 1 + 4) * 64);
  CHECK(lengths[1] < learner.actor().parameters().flat().numel());
}
