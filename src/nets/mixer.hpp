// A mixing network: a team's value as an increasing function of its snakes' values.
// Follows  Rashid et al., "QMIX: monotonic value function factorisation for deep multi-agent reinforcement learning",
//          arXiv:1803.11485.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "nets/net.hpp"

namespace snake_ddp::nets {

struct MixerShape {
  std::int64_t state = 0;   // size of the state, including a constant
  std::int64_t agents = 3;  // n
  std::int64_t embed = 32;  // e
};

/// The blocks of its parameters: [H1 H2 H3 H4], u, c.
enum MixerBlock : std::size_t { kHyper, kValueWeight, kValueBias };

/// Hypernetworks make the mixing weights from the state s [B, state]:
///   W1 = |s H1| as [n, e]    b1 = s H2    w2 = |s H3|    v = relu(s H4) u + c
///   Q_tot = elu(q W1 + b1) . w2 + v
/// The constant in s is the hypernetworks' bias.
class Mixer : public Net<Mixer, MixerShape> {
 public:
  Mixer(MixerShape shape, at::Device device, const Backend* backend = nullptr);

  /// Uniform in +-1/sqrt(inputs), as torch.nn.Linear starts. Depends only on `seed`.
  void init(std::uint64_t seed);

  /// mixer.hyper.weight [state, (n + 3) e], its columns those of H1, H2, H3, H4; mixer.value.weight [e];
  /// mixer.value.bias [1].
  [[nodiscard]] NamedTensors named_views(const FlatParameters& of) const;
};

/// A forward pass and what its backward pass needs. Reused from call to call.
struct MixerPass {
  at::Tensor
      hyper;  // [B, (n + 3) e] before the absolute values; the backward pass turns it into its gradient
  at::Tensor hidden;  // [B, e] after elu
  at::Tensor output;  // [B, 1]
  at::Tensor d_q;     // [B, n], of the backward pass
};

/// Shapes  state [B, state], q [B, n], contiguous; fills `pass`.
void forward(const Mixer& mixer, const at::Tensor& state, const at::Tensor& q, MixerPass& pass);

/// Gradients of a scalar loss. Consumes `pass`: one backward pass per forward pass.
/// Shapes  d_output [B, 1]; `gradients` has the mixer's layout and is overwritten; dL/dq goes to pass.d_q.
void backward(const Mixer& mixer, const at::Tensor& state, const at::Tensor& q, const at::Tensor& d_output,
              MixerPass& pass, FlatParameters& gradients);

}  // namespace snake_ddp::nets
