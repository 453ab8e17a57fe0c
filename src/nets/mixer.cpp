#include "nets/mixer.hpp"

#include <ATen/ATen.h>

#include "fit.hpp"

namespace snake_ddp::nets {

Mixer::Mixer(MixerShape shape, at::Device device, const Backend* backend)
    : Net(shape, {{shape.state, (shape.agents + 3) * shape.embed}, {shape.embed, 0}, {1, 0}}, device,
          backend) {}

void Mixer::init(std::uint64_t seed) {
  draw_weights(seed, {{parameters().block(kHyper), shape().state},
                      {parameters().block(kValueWeight), shape().embed},
                      {parameters().block(kValueBias), shape().embed}});
}

NamedTensors Mixer::named_views(const FlatParameters& of) const {
  return {{"mixer.hyper.weight", of.block(kHyper)},
          {"mixer.value.weight", of.block(kValueWeight)},
          {"mixer.value.bias", of.block(kValueBias)}};
}

void forward(const Mixer& mixer, const at::Tensor& state, const at::Tensor& q, MixerPass& pass) {
  const MixerShape& s = mixer.shape();
  fit(pass.hyper, {q.size(0), (s.agents + 3) * s.embed}, q);
  fit(pass.hidden, {q.size(0), s.embed}, q);
  fit(pass.output, {q.size(0), 1}, q);
  mixer.backend().sparse_product(pass.hyper, state, mixer.parameters().block(kHyper));
  mixer.backend().mix(mixer, q, pass);
}

void backward(const Mixer& mixer, const at::Tensor& state, const at::Tensor& q, const at::Tensor& d_output,
              MixerPass& pass, FlatParameters& gradients) {
  fit(pass.d_q, q.sizes(), q);
  mixer.backend().mix_back(mixer, q, d_output, pass, gradients);
  mixer.backend().sparse_product(gradients.block(kHyper), state.t(), pass.hyper);
}

}  // namespace snake_ddp::nets
