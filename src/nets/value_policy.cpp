#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/nets/gru_net.hpp"
#include "snake_ddp/nets/policy.hpp"

namespace snake_ddp::nets {
namespace {

constexpr std::int64_t kTeam = 3, kMoves = 4;

template <class Shape>
Shape checked(const Shape& shape, const std::string& what) {
  if (shape.out != kMoves) {
    throw base::FileError(
        fmt::format("{}: a Q-network with {} outputs; the game has {} moves", what, shape.out, kMoves));
  }
  return shape;
}

class MlpPolicy final : public Policy {
 public:
  MlpPolicy(const NamedTensors& weights, const MlpShape& shape, const std::string& what)
      : net_(shape, at::kCPU, kQNetName) {
    copy_state(weights, net_.named(), what);
  }

  const at::Tensor& action_values(const at::Tensor& observations) override {
    const c10::NoGradGuard no_grad;
    const std::int64_t boards = observations.size(0);
    forward(net_, observations.view({boards * kTeam, observations.size(2)}), pass_);
    output_ = pass_.output.view({boards, kTeam, kMoves});
    return output_;
  }

 private:
  Mlp net_;
  MlpPass pass_;
  at::Tensor output_;
};

class GruPolicy final : public Policy {
 public:
  GruPolicy(const NamedTensors& weights, const GruShape& shape, const std::string& what)
      : net_(shape, at::kCPU, kQNetName) {
    copy_state(weights, net_.named(), what);
  }

  [[nodiscard]] std::int64_t memory() const override { return net_.shape().hidden; }

  const at::Tensor& action_values(const at::Tensor& observations) override {
    at::Tensor nothing = at::zeros({observations.size(0), kTeam, memory()});
    return action_values_after(observations, nothing);
  }

  const at::Tensor& action_values_after(const at::Tensor& observations, at::Tensor& memory) override {
    const c10::NoGradGuard no_grad;
    step(net_, observations, memory, pass_);
    output_ = pass_.output.view({observations.size(0), kTeam, kMoves});
    return output_;
  }

 private:
  GruNet net_;
  GruPass pass_;
  at::Tensor output_;
};

}  // namespace

bool is_q_net(const NamedTensors& weights) {
  return std::any_of(weights.begin(), weights.end(),
                     [](const auto& item) { return item.first.rfind(std::string(kQNetName) + ".", 0) == 0; });
}

std::unique_ptr<Policy> make_policy(const NamedTensors& weights, Head head, const std::string& what) {
  if (is_q_net(weights)) return std::make_unique<ValuePolicy>(weights, what);
  return std::make_unique<ActorPolicy>(weights, head, what);
}

ValuePolicy::ValuePolicy(const NamedTensors& weights, const std::string& what) {
  if (is_gru_net(weights)) {
    const GruShape shape = checked(gru_shape_of(weights, kQNetName, what), what);
    features_ = shape.in;
    policy_ = std::make_unique<GruPolicy>(weights, shape, what);
  } else {
    const MlpShape shape = checked(mlp_shape_of(weights, kQNetName, what), what);
    features_ = shape.in;
    policy_ = std::make_unique<MlpPolicy>(weights, shape, what);
  }
}

}  // namespace snake_ddp::nets
