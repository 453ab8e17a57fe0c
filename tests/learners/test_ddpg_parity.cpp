// DDPG written down plainly with automatic differentiation and per-tensor Adam, against the flat one.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "snake_ddp/learners/ddpg.hpp"

namespace {

using namespace snake_ddp;

struct PlainNet {
  std::vector<at::Tensor> p;  // prev w, b; post0 w, b; post2 w, b; norm w, b
  std::vector<at::Tensor> m, v;
  nets::Head head;

  PlainNet(const nets::DenseNet& net) : head(net.shape().head) {
    for (const auto& [name, tensor] : net.named()) {
      p.push_back(tensor.clone().contiguous().set_requires_grad(true));
      m.push_back(at::zeros_like(tensor));
      v.push_back(at::zeros_like(tensor));
    }
  }
  at::Tensor operator()(const at::Tensor& x) const {
    at::Tensor h = at::linear(at::linear(x, p[0], p[1]), p[2], p[3]);
    if (p.size() > 6) h = at::layer_norm(h, {h.size(1)}, p[6], p[7], 1e-5);
    const at::Tensor out = at::linear(at::relu(h), p[4], p[5]);
    if (head == nets::Head::kSoftmax) return at::softmax(out, 1);
    return head == nets::Head::kTanh ? at::tanh(out) : out;
  }
  void clear() {
    for (at::Tensor& t : p) t.mutable_grad().reset();
  }
  // torch.nn.utils.clip_grad_norm_ and torch.optim.Adam, tensor by tensor.
  void step(double lr, int t) {
    double squares = 0;
    for (const at::Tensor& x : p) squares += std::pow(x.grad().norm().item<double>(), 2);
    const double factor = std::min(1.0, 1.0 / (std::sqrt(squares) + 1e-6));
    for (std::size_t i = 0; i < p.size(); ++i) {
      const at::Tensor g = p[i].grad() * factor;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      const at::Tensor change =
          lr * (m[i] / (1 - std::pow(0.9, t))) / ((v[i] / (1 - std::pow(0.999, t))).sqrt() + 1e-8);
      p[i] = (p[i].detach() - change).set_requires_grad(true);
    }
  }
  void follow(const PlainNet& online, double tau) {
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = ((1 - tau) * p[i] + tau * online.p[i]).detach();
  }
};

void check(const learners::LearnerOptions& options) {
  learners::Ddpg learner(options);
  PlainNet actor(learner.actor()), critic(learner.critic()), actor_target(actor), critic_target(critic);
  at::manual_seed(3);
  const std::int64_t batch_size = 20, d = options.features;
  for (int u = 1; u <= 20; ++u) {
    const at::Tensor s = at::randn({batch_size, 3, d}), s2 = at::randn({batch_size, 3, d});
    const at::Tensor a = at::rand({batch_size, 3, 4}), r = at::randn({batch_size, 3});
    const at::Tensor discount = (at::rand({batch_size, 3}) < 0.9).to(at::kFloat) * 0.97;
    const at::Tensor one = at::ones({batch_size, 3, 1});
    replay::Batch batch{{at::cat({s, one}, 2), a, r, at::cat({s2, one}, 2), discount}};
    learner.update(batch, [](at::Tensor&) {});

    const auto rows = [](const at::Tensor& t) { return t.reshape({-1, t.size(-1)}); };
    const at::Tensor x = rows(s), x2 = rows(s2);
    // The value of an action vector: the critic at that vector, or the expectation over its moves.
    const auto value = [&](const PlainNet& q, const at::Tensor& states, const at::Tensor& actions) {
      if (!options.expected_value) return q(at::cat({states, actions}, 1));
      at::Tensor sum = at::zeros({states.size(0), 1});
      for (std::int64_t i = 0; i < 4; ++i) {
        const at::Tensor move = at::one_hot(at::full({states.size(0)}, i, at::kLong), 4).to(at::kFloat);
        sum = sum + actions.narrow(1, i, 1) * q(at::cat({states, move}, 1));
      }
      return sum;
    };
    const at::Tensor q2 = value(critic_target, x2, actor_target(x2)).detach();
    const at::Tensor y = r.reshape({-1, 1}) + discount.reshape({-1, 1}) * q2;
    critic.clear();
    (critic(at::cat({x, rows(a)}, 1)) - y).pow(2).mean().backward();
    critic.step(options.c_lr, u);
    if (u % options.actor_interval != 0) continue;
    actor.clear();
    (-value(critic, x, actor(x)).mean()).backward();
    actor.step(options.a_lr, u / static_cast<int>(options.actor_interval));
    actor_target.follow(actor, options.tau);
    critic_target.follow(critic, options.tau);
  }
  const auto compare = [](const PlainNet& plain, const nets::DenseNet& net) {
    const auto named = net.named();
    for (std::size_t i = 0; i < named.size(); ++i) {
      CAPTURE(named[i].first);
      CHECK((named[i].second - plain.p[i].detach()).abs().max().item<double>() < 2e-5);
    }
  };
  compare(actor, learner.actor());
  compare(critic, learner.critic());
  compare(actor_target, learner.actor_target());
  compare(critic_target, learner.critic_target());
}

}  // namespace

TEST_CASE("twenty updates equal DDPG written with automatic differentiation", "[parity]") {
  for (const std::string activation : {"softmax", "tanh"}) {
    for (const bool layer_norm : {false, true}) {
      for (const std::int64_t interval : {1, 2}) {
        for (const bool expected_value : {false, true}) {
          CAPTURE(activation, layer_norm, interval, expected_value);
          learners::LearnerOptions options;
          options.features = 12;
          options.hidden_size = 20;
          options.output_activation = activation;
          options.layer_norm = layer_norm;
          options.actor_interval = interval;
          options.expected_value = expected_value;
          check(options);
        }
      }
    }
  }
}
