#include "nets/policy.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "nets/net_mirror.hpp"
#include "nets/net_policies.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::nets {
namespace {

// [B, 3, features + 1] -> [3 B, features + 1] on the network's device.
at::Tensor rows_of(const at::Tensor& observations, const FlatParameters& parameters) {
  return observations.view({observations.size(0) * kTeamSize, observations.size(2)})
      .to(parameters.flat().device());
}

// [3 B, 4] -> [B, 3, 4] where the observations came from.
at::Tensor answer_to(const at::Tensor& observations, const at::Tensor& output) {
  return output.to(observations.device()).view({observations.size(0), kTeamSize, kMoves});
}

}  // namespace

const at::Tensor& DensePolicy::action_values(const at::Tensor& observations) {
  const c10::NoGradGuard no_grad;
  DensePass& pass = passes_.of(observations);
  forward(*net_, *folded_, rows_of(observations, net_->parameters()), {}, pass);
  return output_ = answer_to(observations, pass.output);
}

const at::Tensor& BicnetPolicy::action_values(const at::Tensor& observations) {
  const c10::NoGradGuard no_grad;
  const at::Device device = net_->parameters().flat().device();
  BicnetPass& pass = passes_.of(observations);
  forward(*net_, *maps_, observations.to(device).transpose(0, 1).contiguous(), pass);
  return output_ = pass.output.transpose(0, 1).to(observations.device()).contiguous();
}

const at::Tensor& MlpPolicy::action_values(const at::Tensor& observations) {
  const c10::NoGradGuard no_grad;
  MlpPass& pass = passes_.of(observations);
  pass.row_by_row = true;
  forward(*net_, rows_of(observations, net_->parameters()), pass, /*keep=*/false);
  return output_ = answer_to(observations, pass.output);
}

const at::Tensor& GruPolicy::action_values(const at::Tensor& observations) {
  at::Tensor nothing = at::zeros({observations.size(0), kTeamSize, memory()});
  return action_values_after(observations, nothing);
}

const at::Tensor& GruPolicy::action_values_after(const at::Tensor& observations, at::Tensor& memory) {
  const c10::NoGradGuard no_grad;
  step(*net_, observations.to(net_->parameters().flat().device()), memory, pass_);
  return output_ = answer_to(observations, pass_.output);
}

namespace {

// A network from a file with its policy: the network is a base so that it is constructed first.
template <class Net>
struct FromFile {
  FromFile(Net fresh, const NamedTensors& weights, const std::string& what) : net(std::move(fresh)) {
    copy_state(weights, net.named(), what);
  }
  Net net;
};

struct DenseFromFile : FromFile<DenseNet> {
  DenseFromFile(const DenseShape& shape, const NamedTensors& weights, const std::string& what,
                at::Device device)
      : FromFile(DenseNet(shape, device), weights, what), folded(net) {
    const c10::NoGradGuard no_grad;
    folded.refresh(net);
  }
  Folded folded;
};

struct LoadedDense final : private DenseFromFile, public DensePolicy {
  LoadedDense(const DenseShape& shape, const NamedTensors& weights, const std::string& what,
              at::Device device)
      : DenseFromFile(shape, weights, what, device), DensePolicy(net, folded) {}
};

struct BicnetFromFile : FromFile<BicnetNet> {
  BicnetFromFile(const BicnetShape& shape, const NamedTensors& weights, const std::string& what,
                 at::Device device)
      : FromFile(BicnetNet(shape, device), weights, what) {
    const c10::NoGradGuard no_grad;
    maps.refresh(net, false);
  }
  BicnetMaps maps;
};

struct LoadedBicnet final : private BicnetFromFile, public BicnetPolicy {
  LoadedBicnet(const BicnetShape& shape, const NamedTensors& weights, const std::string& what,
               at::Device device)
      : BicnetFromFile(shape, weights, what, device), BicnetPolicy(net, maps) {}
};

template <class Net, class NetPolicy>
struct LoadedQNet final : private FromFile<Net>, public NetPolicy {
  template <class Shape>
  LoadedQNet(const Shape& shape, const NamedTensors& weights, const std::string& what, at::Device device)
      : FromFile<Net>(Net(checked(shape, what), device, kQNetName), weights, what), NetPolicy(this->net) {}

  template <class Shape>
  static const Shape& checked(const Shape& shape, const std::string& what) {
    if (shape.out == kMoves) return shape;
    throw core::FileError(fmt::format("{}: a Q-network with {}; the game has {}", what,
                                      core::counted(shape.out, "output"), core::counted(kMoves, "move")));
  }
};

const at::Tensor& first_layer(const NamedTensors& actor, const std::string& what) {
  const at::Tensor* last = find(actor, "post_dense.2.bias");
  if (last != nullptr && last->dim() == 1 && last->size(0) == 1)
    throw core::FileError(what + " is a critic, not an actor: give the actor_*.pth beside it");
  return matrix_of(actor, "prev_dense.0.weight", what);
}

}  // namespace

bool is_q_net(const NamedTensors& weights) { return !under(weights, std::string(kQNetName) + ".").empty(); }

std::unique_ptr<Policy> make_policy(const NamedTensors& weights, Head head, const std::string& what,
                                    const core::Mirror& mirror, at::Device device) {
  if (is_gru_net(weights) && is_q_net(weights)) {
    return std::make_unique<LoadedQNet<GruNet, GruPolicy>>(gru_shape_of(weights, kQNetName, what), weights,
                                                           what, device);
  }
  if (is_q_net(weights)) {
    MlpShape shape = mlp_shape_of(weights, kQNetName, what);
    shape.mirrored_inputs = symmetric_inputs(weights, mirror, what);
    return std::make_unique<LoadedQNet<Mlp, MlpPolicy>>(shape, weights, what, device);
  }
  const at::Tensor& first = first_layer(weights, what);
  const std::int64_t hidden = first.size(0), features = first.size(1);
  if (!under(weights, "comm_net.lstm.").empty()) {
    const BicnetShape shape{features, hidden, kMoves, head, BicnetRole::kActor};
    return std::make_unique<LoadedBicnet>(shape, weights, what, device);
  }
  return std::make_unique<LoadedDense>(DenseShape{features, hidden, kMoves, head, false}, weights, what,
                                       device);
}

std::int64_t features_of(const NamedTensors& weights, const std::string& what) {
  if (!is_q_net(weights)) return first_layer(weights, what).size(1);
  return is_gru_net(weights) ? gru_shape_of(weights, kQNetName, what).in
                             : mlp_shape_of(weights, kQNetName, what).in;
}

std::int64_t hidden_of(const NamedTensors& weights, const std::string& what) {
  if (!is_q_net(weights)) return first_layer(weights, what).size(0);
  return is_gru_net(weights) ? gru_shape_of(weights, kQNetName, what).hidden
                             : mlp_shape_of(weights, kQNetName, what).hidden;
}

}  // namespace snake_ddp::nets
