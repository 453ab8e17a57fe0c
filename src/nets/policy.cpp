#include "snake_ddp/nets/policy.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::nets {
namespace {

DenseShape shape_of(const NamedTensors& actor, Head head, const std::string& what) {
  for (const auto& [name, tensor] : actor) {
    if (name == "comm_net.lstm.weight_ih_l0") {
      throw base::FileError(what + " is a BiCNet actor; this version plays DDPG actors only");
    }
  }
  for (const auto& [name, tensor] : actor) {
    if (name == "prev_dense.0.weight" && tensor.dim() == 2)
      return {tensor.size(1), tensor.size(0), 4, head, false};
  }
  throw base::FileError(what + " is not an actor: it has no matrix \"prev_dense.0.weight\"");
}

}  // namespace

ActorPolicy::ActorPolicy(const NamedTensors& actor, Head head, const std::string& what)
    : net_(shape_of(actor, head, what), at::kCPU), folded_(net_.shape(), at::kCPU) {
  copy_state(actor, net_.named(), what);
  const c10::NoGradGuard no_grad;
  folded_.refresh(net_);
}

const at::Tensor& ActorPolicy::action_values(const at::Tensor& observations) {
  const c10::NoGradGuard no_grad;
  const std::int64_t boards = observations.size(0);
  forward(net_, folded_, observations.view({boards * 3, features() + 1}), pass_);
  output_ = pass_.output.view({boards, 3, 4});
  return output_;
}

}  // namespace snake_ddp::nets
