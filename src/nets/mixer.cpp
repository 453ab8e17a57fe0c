#include "snake_ddp/nets/mixer.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>

#include <cmath>

namespace snake_ddp::nets {
namespace {

enum : std::size_t { kHyper, kValueWeight, kValueBias };

// The columns of each hypernetwork in `hyper`.
struct Parts {
  at::Tensor weights, bias, second, value;  // [B, n e], [B, e], [B, e], [B, e]
};

Parts parts_of(const MixerShape& s, const at::Tensor& hyper) {
  const std::int64_t wide = s.agents * s.embed;
  return {hyper.narrow(1, 0, wide), hyper.narrow(1, wide, s.embed), hyper.narrow(1, wide + s.embed, s.embed),
          hyper.narrow(1, wide + 2 * s.embed, s.embed)};
}

}  // namespace

Mixer::Mixer(MixerShape shape, at::Device device)
    : shape_(shape),
      parameters_({{shape.state, (shape.agents + 3) * shape.embed}, {shape.embed, 0}, {1, 0}}, device) {}

void Mixer::init(std::uint64_t seed) {
  const c10::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (const std::size_t block : {kHyper, kValueWeight, kValueBias}) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(block == kHyper ? shape_.state : shape_.embed));
    at::Tensor drawn = at::empty(parameters_.block(block).sizes(), at::kFloat);
    drawn.uniform_(-bound, bound, generator);
    at::Tensor(parameters_.block(block)).copy_(drawn);
  }
}

NamedTensors Mixer::named_views(const FlatParameters& of) const {
  return {{"mixer.hyper.weight", of.block(kHyper)},
          {"mixer.value.weight", of.block(kValueWeight)},
          {"mixer.value.bias", of.block(kValueBias)}};
}

void forward(const Mixer& mixer, const at::Tensor& state, const at::Tensor& q, MixerPass& pass) {
  const MixerShape& shape = mixer.shape();
  const FlatParameters& p = mixer.parameters();
  pass.hyper = at::mm(state, p.block(kHyper));
  const Parts parts = parts_of(shape, pass.hyper);
  const at::Tensor weights = parts.weights.abs().view({q.size(0), shape.agents, shape.embed});
  pass.before = at::bmm(q.unsqueeze(1), weights).squeeze(1).add_(parts.bias);
  pass.hidden = at::elu(pass.before);
  pass.value = parts.value.relu();
  pass.output = (pass.hidden * parts.second.abs()).sum(1, true);
  pass.output.add_(at::mv(pass.value, p.block(kValueWeight)).unsqueeze(1)).add_(p.block(kValueBias));
}

at::Tensor backward(const Mixer& mixer, const at::Tensor& state, const at::Tensor& q,
                    const at::Tensor& d_output, const MixerPass& pass, FlatParameters& gradients) {
  const MixerShape& shape = mixer.shape();
  const FlatParameters& p = mixer.parameters();
  const Parts parts = parts_of(shape, pass.hyper);
  at::Tensor d_hyper = at::empty_like(pass.hyper);
  const Parts d_parts = parts_of(shape, d_hyper);
  const std::int64_t rows = q.size(0);

  // v = relu(s H4) u + c
  at::Tensor(gradients.block(kValueWeight)).copy_(at::mv(pass.value.t(), d_output.squeeze(1)));
  at::Tensor(gradients.block(kValueBias)).copy_(d_output.sum(0));
  at::Tensor(d_parts.value).copy_(d_output * p.block(kValueWeight) * parts.value.gt(0));
  // hidden . |w2|
  at::Tensor(d_parts.second).copy_(d_output * pass.hidden * parts.second.sign());
  const at::Tensor d_hidden = d_output * parts.second.abs();
  // elu: its slope is 1 above 0 and e^x = elu(x) + 1 below.
  const at::Tensor d_before =
      d_hidden * at::where(pass.before.gt(0), at::ones_like(pass.hidden), pass.hidden + 1);
  at::Tensor(d_parts.bias).copy_(d_before);
  const at::Tensor d_weights =
      (q.unsqueeze(2) * d_before.unsqueeze(1)).view({rows, shape.agents * shape.embed});
  at::Tensor(d_parts.weights).copy_(d_weights * parts.weights.sign());
  at::Tensor(gradients.block(kHyper)).copy_(at::mm(state.t(), d_hyper));
  const at::Tensor weights = parts.weights.abs().view({rows, shape.agents, shape.embed});
  return at::bmm(weights, d_before.unsqueeze(2)).squeeze(2);
}

}  // namespace snake_ddp::nets
