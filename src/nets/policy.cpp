#include "snake_ddp/nets/policy.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/nets/bicnet.hpp"
#include "snake_ddp/nets/dense_rows.hpp"

namespace snake_ddp::nets {
namespace {

constexpr std::int64_t kMoves = 4;

class DensePolicy final : public Policy {
 public:
  DensePolicy(const NamedTensors& actor, const DenseShape& shape, const std::string& what)
      : net_(shape, at::kCPU), rows_(shape), scratch_(shape.hidden, shape.in) {
    copy_state(actor, net_.named(), what);
    const c10::NoGradGuard no_grad;
    rows_.refresh(net_);
  }

  const at::Tensor& action_values(const at::Tensor& observations) override {
    const std::int64_t boards = observations.size(0);
    SD_CHECK(observations.is_contiguous() && observations.numel() == boards * kTeam * (net_.shape().in + 1),
             "rows of features and a constant 1");
    if (!output_.defined() || output_.size(0) != boards)
      output_ = at::empty({boards, kTeam, kMoves}, at::kFloat);
    forward_all(rows_, boards * kTeam, observations.data_ptr<float>(), scratch_, output_.data_ptr<float>());
    return output_;
  }

 private:
  DenseNet net_;
  DenseRows rows_;
  RowScratch scratch_;
  at::Tensor output_;
};

class BicnetPolicy final : public Policy {
 public:
  BicnetPolicy(const NamedTensors& actor, const BicnetShape& shape, const std::string& what)
      : net_(shape, at::kCPU, false) {
    copy_state(actor, net_.named(), what);
    const c10::NoGradGuard no_grad;
    maps_.refresh(net_, false);
  }

  const at::Tensor& action_values(const at::Tensor& observations) override {
    const c10::NoGradGuard no_grad;
    forward(net_, maps_, observations.transpose(0, 1).contiguous(), pass_);
    output_ = pass_.output.transpose(0, 1).contiguous();
    return output_;
  }

 private:
  BicnetNet net_;
  BicnetMaps maps_;
  BicnetPass pass_;
  at::Tensor output_;
};

const at::Tensor& first_layer(const NamedTensors& actor, const std::string& what) {
  for (const auto& [name, tensor] : actor) {
    if (name == "post_dense.2.bias" && tensor.dim() == 1 && tensor.size(0) == 1)
      throw base::FileError(what + " is a critic, not an actor: give the actor_*.pth beside it");
  }
  for (const auto& [name, tensor] : actor) {
    if (name == "prev_dense.0.weight" && tensor.dim() == 2) return tensor;
  }
  throw base::FileError(what + " is not an actor: it has no matrix \"prev_dense.0.weight\"");
}

bool has_lstm(const NamedTensors& actor) {
  return std::any_of(actor.begin(), actor.end(),
                     [](const auto& item) { return item.first.rfind("comm_net.lstm.", 0) == 0; });
}

}  // namespace

ActorPolicy::ActorPolicy(const NamedTensors& actor, Head head, const std::string& what) {
  const at::Tensor& first = first_layer(actor, what);
  features_ = first.size(1);
  const std::int64_t hidden = first.size(0);
  if (has_lstm(actor)) {
    const BicnetShape shape{features_, hidden, kMoves, head, BicnetRole::kActor};
    policy_ = std::make_unique<BicnetPolicy>(actor, shape, what);
  } else {
    const DenseShape shape{features_, hidden, kMoves, head, false};
    policy_ = std::make_unique<DensePolicy>(actor, shape, what);
  }
}

}  // namespace snake_ddp::nets
