// A network with memory: Linear, ReLU, a gated recurrent unit along time, Linear. The agent of QMIX.
// Follows  Rashid et al., "QMIX", arXiv:1803.11485, appendix; the unit: Cho et al., arXiv:1406.1078, as in
//          torch.nn.GRUCell, with the gates in its order: reset, update, new.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "nets/net.hpp"

namespace snake_ddp::nets {

struct GruShape {
  std::int64_t in = 0;  // features, without the constant
  std::int64_t hidden = 64;
  std::int64_t out = 4;
};

/// The parameters of one network. Rows of inputs carry one more column, [.., in + 1], as DenseNet's do; it is not read.
class GruNet : public Net<GruNet, GruShape> {
 public:
  /// `name` starts the linear layers' names in files.
  GruNet(GruShape shape, at::Device device, std::string name, const Backend* backend = nullptr);

  /// The defaults of torch.nn.Linear and torch.nn.GRUCell: uniform in +-1/sqrt(fan_in), the unit's in +-1/sqrt(hidden).
  /// Depends only on `seed`.
  void init(std::uint64_t seed);

  /// Views as torch.nn.Linear and torch.nn.GRUCell have them: NAME.0.weight [hidden, in], NAME.0.bias, gru.weight_ih
  /// [3 hidden, hidden], gru.weight_hh, gru.bias_ih, gru.bias_hh, NAME.1.weight [out, hidden], NAME.1.bias.
  [[nodiscard]] NamedTensors named_views(const FlatParameters& of) const;

 private:
  std::string name_;
};

/// Are these the weights of a GruNet, rather than of an Mlp?
bool is_gru_net(const NamedTensors& weights);

/// The shape of a network from a file under that name.
/// Throws  FileError if the tensors are not of this network. `what` names the source.
GruShape gru_shape_of(const NamedTensors& weights, const std::string& name, const std::string& what);

/// A forward pass over T steps of R rows, and what its backward pass needs of the last K steps. Reused from call to call:
/// no allocation while no size grows.
struct GruPass {
  std::int64_t from = 0;  // the first of the K steps
  at::Tensor first;       // [K, R, hidden], after the ReLU
  at::Tensor gates;       // [K, R, 3 hidden]: reset, update and candidate
  at::Tensor recurrent;   // [K, R, hidden], the state's part of the candidate, before the reset gate
  at::Tensor states;      // [T + 1, R, hidden]: before the first step, and after each
  at::Tensor output;      // [T - from, R, out]
  // Scratch of the backward pass.
  at::Tensor d_states, transposed;
};

/// Shapes  input [T, R, in + 1]; state [R, hidden] before the first step, undefined if it is 0; valid [T, R, 1]: the
///         factor for the state after each step, 0 where there is no row and the next step starts from nothing. All
///         contiguous. Fills `pass`, its outputs from step `from` on; without `keep` no backward pass can follow.
void forward(const GruNet& net, const at::Tensor& input, const at::Tensor& state, const at::Tensor& valid,
             GruPass& pass, std::int64_t from = 0, bool keep = true);

/// Of [.., 3 hidden]: the columns of reset and update gate, and those of the candidate. Views.
inline at::Tensor gate_part(const at::Tensor& gates) { return gates.narrow(1, 0, gates.size(1) / 3 * 2); }
inline at::Tensor candidate_part(const at::Tensor& gates) {
  return gates.narrow(1, gates.size(1) / 3 * 2, gates.size(1) / 3);
}

/// One step of play: `pass.output` is [1, B n, out].
/// Shapes  observations [B, n, in + 1] on the network's device; memory [B, n, hidden] in main memory, the state, which
///         is overwritten.
void step(const GruNet& net, const at::Tensor& observations, at::Tensor& memory, GruPass& pass);

/// Gradients of a scalar loss with respect to the parameters, through the steps from pass.from to `last`; earlier steps
/// count as constants. Consumes `pass`: one backward pass per forward pass.
/// Shapes  d_output [last - pass.from + 1, R, out]; `gradients` has the network's layout and is overwritten.
void backward(const GruNet& net, const at::Tensor& input, const at::Tensor& valid, GruPass& pass,
              std::int64_t last, const at::Tensor& d_output, FlatParameters& gradients);

}  // namespace snake_ddp::nets
