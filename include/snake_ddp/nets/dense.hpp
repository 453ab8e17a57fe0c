// The reference's actor and critic: Linear(in, hidden), Linear(hidden, hidden), ReLU, Linear(hidden, out),
// head. There is no activation after the first layer (an oddity of the reference, kept), so the first two
// layers are one linear map: forward and backward multiply by their product W1*W0 [hidden, in] instead of by
// both. With 30 features and 256 hidden units that is an eighth of the arithmetic, and the parameters stay
// those of the reference.
// All passes here use the library's products, on any device; dense_rows.hpp has our own for the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "snake_ddp/nets/dense_shape.hpp"
#include "snake_ddp/nets/flat_parameters.hpp"

namespace snake_ddp::nets {

/// The parameters of one network. Rows of inputs carry a constant 1 after the features: [R, in + 1].
class DenseNet {
 public:
  DenseNet(DenseShape shape, at::Device device);

  [[nodiscard]] const DenseShape& shape() const { return shape_; }
  [[nodiscard]] FlatParameters& parameters() { return parameters_; }
  [[nodiscard]] const FlatParameters& parameters() const { return parameters_; }

  /// torch.nn.Linear's default: uniform in +-1/sqrt(fan_in) for weights and biases. Depends only on `seed`.
  void init(std::uint64_t seed);

  /// Views under the reference's names: prev_dense.0.*, post_dense.0.*, post_dense.2.*, and with layer norm
  /// post_norm.*. Owner: this network.
  [[nodiscard]] NamedTensors named() const { return named_views(parameters_); }
  /// The same names over another tensor of this layout (gradients, moments).
  [[nodiscard]] NamedTensors named_views(const FlatParameters& of) const;

  /// The parameters in main memory. Owner: this network.
  [[nodiscard]] DenseBlocks blocks() const { return blocks(parameters_); }
  /// Another tensor of this layout in main memory.
  [[nodiscard]] DenseBlocks blocks(const FlatParameters& of) const;

 private:
  DenseShape shape_;
  FlatParameters parameters_;
};

/// The product of the first two layers for the parameters as they are now. Valid until they change.
class Folded {
 public:
  explicit Folded(const DenseShape& shape, at::Device device);
  /// Cost  one [in + 1, hidden] x [hidden, hidden] product.
  void refresh(const DenseNet& net);
  at::Tensor map;  // [in + 1, hidden]; the last row is the bias
};

/// A gradient as the backward pass computes it: of the folded map, the last layer and the norm. For given weights the
/// gradient of all parameters is linear in it, and it is an eighth as long at 256 hidden units, so ranks
/// average it.
struct FoldedGradient {
  /// Shapes  rows are `width` >= hidden floats long; floats beyond `hidden` are unused.
  FoldedGradient(const DenseShape& shape, std::int64_t width, at::Device device);
  /// In main memory. Owner: this.
  [[nodiscard]] FoldedBlocks blocks() const;

  DenseShape shape;
  std::int64_t width;
  at::Tensor flat;
  // Views: [in + 1, width] the last row the bias, [out, width], [out], and with layer norm [2, width] scale and shift.
  at::Tensor map, last_weight, last_bias, norm;
};

/// One forward pass and what its backward pass needs. Reused from call to call: no allocation while the
/// number of rows stays the same.
struct Pass {
  at::Tensor hidden;  // [R, hidden] after the ReLU
  at::Tensor output;  // [R, out] after the head
  // With layer norm only.
  at::Tensor before_norm, mean, inverse_deviation;
  // Scratch of the backward pass.
  at::Tensor d_logits, d_hidden;
};

/// Shapes  input [R, in + 1] whose last column is 1; fills pass.hidden and pass.output.
void forward(const DenseNet& net, const Folded& folded, const at::Tensor& input, Pass& pass);

/// Gradient of a scalar loss with respect to the folded map, the last layer and the norm.
/// Shapes  d_output [R, out] = dL/d(output); `gradient` is overwritten.
void backward_parameters(const DenseNet& net, const at::Tensor& input, const at::Tensor& d_output, Pass& pass,
                         FoldedGradient& gradient);

/// From that, the gradient with respect to all parameters, which has the network's layout and is overwritten.
void unfold(const DenseNet& net, const FoldedGradient& folded, FlatParameters& gradient);

/// The gradient with respect to `count` input columns from `first` on; no parameter gradient is computed.
/// Shapes  returns into `d_columns` [R, count].
void backward_input(const DenseNet& net, const Folded& folded, const at::Tensor& d_output, Pass& pass,
                    std::int64_t first, std::int64_t count, at::Tensor& d_columns);

/// Values of all one-hot actions at once: column i is the output for [features, e_i].
/// Shapes  observation [R, features + 1] with the constant 1 last; `net` has features + moves inputs and one output;
///         returns into `values` [R, moves]. `pass` is scratch.
/// Cost    one forward pass over the features, and the hidden layer `moves` times; no backward pass may follow.
void forward_moves(const DenseNet& net, const Folded& folded, const at::Tensor& observation,
                   std::int64_t moves, Pass& pass, at::Tensor& values);

/// Folds x' = (x - shift) * scale of the first n input features into the first layer, so that a network
/// trained on scaled features gives the same outputs for raw ones.
/// Shapes      shift, scale [n]; returns the tensors under the same names, not aliasing `scaled`.
NamedTensors fold_input_scale(const NamedTensors& scaled, const at::Tensor& shift, const at::Tensor& scale);

/// The inverse: weights for raw features become weights for scaled ones.
NamedTensors unfold_input_scale(const NamedTensors& raw, const at::Tensor& shift, const at::Tensor& scale);

}  // namespace snake_ddp::nets
