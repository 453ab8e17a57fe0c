// A network of three layers: Linear, layer norm, ReLU, twice; then Linear. Its passes over the flat parameters are
// hand-written, like those of DenseNet, the reference's network, which has only one nonlinearity.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "nets/net.hpp"
#include "snake_ddp/core/mirror_image.hpp"
#include "snake_ddp/kernels/halves.hpp"
#include "snake_ddp/kernels/products.hpp"
#include "snake_ddp/kernels/rounded_layers.hpp"

namespace snake_ddp::nets {

inline constexpr std::size_t kHiddenLayers = 2;

struct MlpShape {
  std::int64_t in = 0;  // features, without the constant
  std::int64_t hidden = 256;
  std::int64_t out = 4;
  bool layer_norm = true;
  /// For a symmetric network (NetMirror): how inputs change if left and right are exchanged. Passes in main memory then
  /// leave out products that follow from others (kernels/halves.hpp), and average the second weight's gradient with its
  /// image.
  std::vector<core::MirrorImage> mirrored_inputs = {};
};

/// The parameters of one network. Rows of inputs carry one more column, [R, in + 1], as DenseNet's do; it is not read:
/// each layer has a bias of its own.
class Mlp : public Net<Mlp, MlpShape> {
 public:
  /// `name` starts the linear layers' names in files. In main memory it computes in bfloat16 if that is the product_precision()
  /// now.
  Mlp(const MlpShape& shape, at::Device device, std::string name, const Backend* backend = nullptr);

  /// Passes in main memory round the factors of hidden layers' products to bfloat16.
  [[nodiscard]] bool in_bf16() const { return plan_.in_bf16; }
  [[nodiscard]] core::Bf16By instructions() const { return plan_.instructions; }
  /// The first layer skips zeros where inputs have many.
  [[nodiscard]] bool skips_zeros() const { return !in_bf16() || instructions() == core::Bf16By::kVectors; }
  /// The inputs of the hidden layers as sums and differences; null if passes use none.
  [[nodiscard]] const kernels::Halves* halves() const {
    return plan_.halves.empty() ? nullptr : plan_.halves.data();
  }

  /// torch.nn.Linear's default: uniform in +-1/sqrt(fan_in); the norms start as 1 and 0. Depends only on `seed`.
  void init(std::uint64_t seed);

  /// Views as torch.nn.Linear and LayerNorm have them: NAME.0.weight [hidden, in], NAME.0.bias, norm_0.weight,
  /// norm_0.bias, NAME.1.*, norm_1.*, NAME.2.weight [out, hidden], NAME.2.bias; no norms without layer norm.
  [[nodiscard]] NamedTensors named_views(const FlatParameters& of) const;

 private:
  std::string name_;
  MlpPlan plan_;
};

/// The shape of a network from a file under that name.
/// Throws  FileError if the tensors are not of this network. `what` names the source.
MlpShape mlp_shape_of(const NamedTensors& weights, const std::string& name, const std::string& what);

/// One forward pass and what its backward pass needs. Reused from call to call: no allocation while the number of
/// rows does not exceed its earlier maximum.
struct MlpPass {
  struct Layer {
    // With layer norm only. In main memory the normalised rows are kept; by the library, the product before the norm.
    at::Tensor normal, before_norm;      // [R, hidden]
    at::Tensor mean, inverse_deviation;  // [R]; the mean by the library only
    at::Tensor hidden;                   // [R, hidden] after the ReLU
    at::Tensor folded;                   // the weight of a symmetric network
  };
  std::array<Layer, kHiddenLayers> layer;
  kernels::RoundedFirst rounded_first;  // the weights of a network in bfloat16
  kernels::RoundedSecond rounded_second;
  at::Tensor output;        // [R, out]
  bool row_by_row = false;  // a row's result has the same bits in any batch, also in a symmetric network
  at::Tensor sums;          // [R, hidden] of a symmetric network: the first layer's halves exchanged
  at::Tensor d_upper, d_lower, transposed, ones, d_folded;  // scratch of the backward pass
  kernels::RoundedSecond transposed_rounded;                // that of any one in bfloat16
  kernels::Bf16Matrix d_rounded;
};

/// Shapes  input [R, in + 1]; fills `pass`; without `keep` only its output, and no backward pass can follow.
void forward(const Mlp& net, const at::Tensor& input, MlpPass& pass, bool keep = true);

/// Gradients of a scalar loss with respect to the parameters.
/// Shapes  d_output [R, out] = dL/d(output); `gradients` has the network's layout and is overwritten.
void backward(const Mlp& net, const at::Tensor& input, const at::Tensor& d_output, MlpPass& pass,
              FlatParameters& gradients);

}  // namespace snake_ddp::nets
