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
    if (name == "post_dense.2.bias" && tensor.dim() == 1 && tensor.size(0) == 1)
      throw base::FileError(what + " is a critic, not an actor: give the actor_*.pth beside it");
  }
  for (const auto& [name, tensor] : actor) {
    if (name == "prev_dense.0.weight" && tensor.dim() == 2)
      return {tensor.size(1), tensor.size(0), 4, head, false};
  }
  throw base::FileError(what + " is not an actor: it has no matrix \"prev_dense.0.weight\"");
}

}  // namespace

ActorPolicy::ActorPolicy(const NamedTensors& actor, Head head, const std::string& what)
    : net_(shape_of(actor, head, what), at::kCPU),
      rows_(net_.shape()),
      scratch_(net_.shape().hidden, net_.shape().in) {
  copy_state(actor, net_.named(), what);
  const c10::NoGradGuard no_grad;
  rows_.refresh(net_);
}

const at::Tensor& ActorPolicy::action_values(const at::Tensor& observations) {
  const std::int64_t boards = observations.size(0);
  SD_CHECK(observations.is_contiguous() && observations.numel() == boards * 3 * (features() + 1),
           "rows of features and a constant 1");
  if (!output_.defined() || output_.size(0) != boards) output_ = at::empty({boards, 3, 4}, at::kFloat);
  forward_all(rows_, boards * 3, observations.data_ptr<float>(), scratch_, output_.data_ptr<float>());
  return output_;
}

}  // namespace snake_ddp::nets
