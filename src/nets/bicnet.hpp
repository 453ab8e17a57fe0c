// The reference's BiCNet actor and critic: Linear(in, H), an LSTM in both directions along the three snakes,
// Linear(2 H, H), ReLU, Linear(H, out), head. So each snake's output sees the whole team. There is no activation between
// the first layer and the LSTM's gates, so these are one linear map here, like the first two layers of DenseNet.
// Follows  Peng et al., "Multiagent bidirectionally-coordinated nets", arXiv:1703.10069, as implemented in the reference:
//          see docs/learners/bicnet.md.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "nets/dense.hpp"
#include "nets/net.hpp"
#include "nets/team.hpp"

namespace snake_ddp::nets {

/// Which order of names to use: the reference's critic lists its LSTM before its first layer.
enum class BicnetRole { kActor, kCritic };

struct BicnetShape {
  std::int64_t in = 0;  // features, without the constant
  std::int64_t hidden = 256;
  std::int64_t out = 1;
  Head head = Head::kIdentity;
  BicnetRole role = BicnetRole::kActor;
};

/// The parameters of one network. Inputs are [3, B, in + 1]: snake by snake, each row with a constant 1 last.
class BicnetNet : public Net<BicnetNet, BicnetShape> {
 public:
  BicnetNet(BicnetShape shape, at::Device device, const Backend* backend = nullptr);

  /// The defaults of torch.nn.Linear and torch.nn.LSTM: uniform in +-1/sqrt(fan_in), the LSTM's in +-1/sqrt(hidden).
  /// Depends only on `seed`.
  void init(std::uint64_t seed);

  /// Views under the reference's names: prev_dense.0.*, comm_net.lstm.*, post_dense.0.*, post_dense.2.*.
  [[nodiscard]] NamedTensors named_views(const FlatParameters& of) const;
};

/// Computed from the parameters once, and valid until they change.
struct BicnetMaps {
  /// Cost  one [in + 1, H] x [H, 8 H] product; `with_backward` three transposed copies more.
  void refresh(const BicnetNet& net, bool with_backward);

  at::Tensor input;       // [in + 1, 8 H], features to gates of both directions; the last row is the bias
  at::Tensor recurrent;   // [2, 4 H, H], as the backward pass reads it; likewise
  at::Tensor post_dense;  // [H, 2 H]
};

/// One forward pass and what its backward pass needs. Reused from call to call: no allocation while the number of
/// boards stays the same.
struct BicnetPass {
  at::Tensor output;  // [3, B, out] after the head
  at::Tensor
      gates;  // [3, B, 8 H]: activated, of both directions; the backward pass turns them into gradients
  at::Tensor c, tanh_c;  // [3, B, 2 H]
  at::Tensor states;     // [3, B, 2 H], the LSTM's output
  at::Tensor hidden;     // [3 B, H] after the ReLU
  // Scratch.
  at::Tensor logits, d_logits, d_hidden, d_states, d_c, d_map, d_map_transposed, d_prev_transposed;
};

/// Shapes  input [3, B, in + 1], contiguous, its last column 1; fills `pass`.
void forward(const BicnetNet& net, const BicnetMaps& maps, const at::Tensor& input, BicnetPass& pass);

/// Gradients of a scalar loss with respect to the parameters. Consumes `pass`: one backward pass per forward pass.
/// Shapes  d_output [3, B, out] = dL/d(output); `gradients` has the network's layout and is overwritten; maps made
///         with `with_backward`.
void backward_parameters(const BicnetNet& net, const BicnetMaps& maps, const at::Tensor& input,
                         const at::Tensor& d_output, BicnetPass& pass, FlatParameters& gradients);

/// The gradient with respect to `count` input columns from `first` on; no parameter gradient is computed. Consumes
/// `pass`.
/// Shapes  returns into `d_columns` [3, B, count].
void backward_input(const BicnetNet& net, const BicnetMaps& maps, const at::Tensor& d_output,
                    BicnetPass& pass, std::int64_t first, std::int64_t count, at::Tensor& d_columns);

}  // namespace snake_ddp::nets
