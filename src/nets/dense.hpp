// The reference's actor and critic: Linear(in, hidden), Linear(hidden, hidden), ReLU, Linear(hidden, out),
// head. There is no activation after the first layer (an oddity of the reference, kept), so the first two
// layers are one linear map: forward and backward multiply by their product W1*W0 [hidden, in] instead of by
// both. With 30 features and 256 hidden units that is an eighth of the arithmetic, and the parameters stay
// those of the reference.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "nets/dense_shape.hpp"
#include "nets/net.hpp"

namespace snake_ddp::nets {

/// The parameters of one network. Its inputs are the features and, of a critic, an action; then a constant 1.
class DenseNet : public Net<DenseNet, DenseShape> {
 public:
  DenseNet(const DenseShape& shape, at::Device device, const Backend* backend = nullptr);

  /// torch.nn.Linear's default: uniform in +-1/sqrt(fan_in) for weights and biases. Depends only on `seed`.
  void init(std::uint64_t seed);

  /// Views under the reference's names: prev_dense.0.*, post_dense.0.*, post_dense.2.*, and with layer norm
  /// post_norm.*.
  [[nodiscard]] NamedTensors named_views(const FlatParameters& of) const;
};

/// The product of the first two layers for the parameters as they are now. Valid until they change.
class Folded {
 public:
  explicit Folded(const DenseNet& net);
  /// Cost  one [inputs, hidden] x [hidden, hidden] product.
  void refresh(const DenseNet& net);
  at::Tensor map;  // [in + actions + 1, hidden]; the last row is the bias
};

/// A gradient as the backward pass computes it: of the folded map, the last layer and the norm. For given weights the
/// gradient of all parameters is linear in it, and it is shorter by a [hidden, hidden] block, so ranks average it.
struct FoldedGradient {
  explicit FoldedGradient(const DenseNet& net);

  at::Tensor flat;
  // Views: [in + actions + 1, hidden] the last row the bias, [out, hidden], [out], and with layer norm [hidden] twice.
  at::Tensor map, last_weight, last_bias, gain, shift;
};

/// One forward pass and what its backward pass needs. Reused from call to call: no allocation while the
/// number of rows stays the same.
struct DensePass {
  Activated hidden;
  at::Tensor output;  // [R, out] after the head
  // Scratch of the backward pass, and of forward_moves.
  at::Tensor logits, d_hidden, features;
  Activated moves;
};

/// Shapes  observation [R, in + 1], whose last column is not read; action [R, actions], undefined if there are none;
///         fills `pass`.
void forward(const DenseNet& net, const Folded& folded, const at::Tensor& observation,
             const at::Tensor& action, DensePass& pass);

/// Adds the gradient of a scalar loss with respect to the folded map, the last layer and the norm.
/// Shapes  observation and action as above; d_output [R, out] = dL/d(output).
void backward_parameters(const DenseNet& net, const at::Tensor& observation, const at::Tensor& action,
                         const at::Tensor& d_output, DensePass& pass, FoldedGradient& gradient);

/// From that, the gradient with respect to all parameters, which has the network's layout and is overwritten.
/// Cost  two [inputs, hidden] x [hidden, hidden] products.
void unfold(const DenseNet& net, const FoldedGradient& folded, FlatParameters& gradient);

/// The gradient with respect to the action; no parameter's is computed.
/// Shapes  returns into `d_action` [R, actions].
void backward_action(const DenseNet& net, const Folded& folded, const at::Tensor& d_output, DensePass& pass,
                     at::Tensor& d_action);

/// Values of all one-hot actions at once: column i is the output for [features, e_i].
/// Shapes  observation [R, in + 1]; `net` has one output; returns into `values` [R, actions]. `pass` is scratch.
/// Cost    one forward pass over the features, and the hidden layer `actions` times; no backward pass may follow.
void forward_moves(const DenseNet& net, const Folded& folded, const at::Tensor& observation, DensePass& pass,
                   at::Tensor& values);

}  // namespace snake_ddp::nets
