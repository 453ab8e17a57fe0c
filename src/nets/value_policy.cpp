#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/nets/policy.hpp"

namespace snake_ddp::nets {
namespace {

constexpr std::int64_t kTeam = 3, kMoves = 4;

MlpShape q_shape_of(const NamedTensors& weights, const std::string& what) {
  const MlpShape shape = mlp_shape_of(weights, kQNetName, what);
  if (shape.out != kMoves) {
    throw base::FileError(
        fmt::format("{}: a Q-network with {} outputs; the game has {} moves", what, shape.out, kMoves));
  }
  return shape;
}

}  // namespace

bool is_q_net(const NamedTensors& weights) {
  return std::any_of(weights.begin(), weights.end(),
                     [](const auto& item) { return item.first.rfind(std::string(kQNetName) + ".", 0) == 0; });
}

std::unique_ptr<Policy> make_policy(const NamedTensors& weights, Head head, const std::string& what) {
  if (is_q_net(weights)) return std::make_unique<ValuePolicy>(weights, what);
  return std::make_unique<ActorPolicy>(weights, head, what);
}

ValuePolicy::ValuePolicy(const NamedTensors& weights, const std::string& what)
    : net_(q_shape_of(weights, what), at::kCPU, kQNetName) {
  copy_state(weights, net_.named(), what);
}

const at::Tensor& ValuePolicy::action_values(const at::Tensor& observations) {
  const c10::NoGradGuard no_grad;
  const std::int64_t boards = observations.size(0);
  forward(net_, observations.view({boards * kTeam, observations.size(2)}), pass_);
  output_ = pass_.output.view({boards, kTeam, kMoves});
  return output_;
}

}  // namespace snake_ddp::nets
