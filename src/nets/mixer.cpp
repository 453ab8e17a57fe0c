#include "nets/mixer.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "activations.hpp"
#include "fit.hpp"
#include "layers.hpp"

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

// Everything but the product of state and hypernetworks, by ATen's operators: for any device, and as the tests' oracle.
void plain_mix(const Mixer& mixer, const at::Tensor& q, MixerPass& pass) {
  const MixerShape& shape = mixer.shape();
  const FlatParameters& p = mixer.parameters();
  const Parts parts = parts_of(shape, pass.hyper);
  const at::Tensor weights = parts.weights.abs().view({q.size(0), shape.agents, shape.embed});
  at::elu_out(pass.hidden, at::bmm(q.unsqueeze(1), weights).squeeze(1).add_(parts.bias));
  at::sum_out(pass.output, pass.hidden * parts.second.abs(), 1, true);
  pass.output.add_(at::mv(parts.value.relu(), p.block(kValueWeight)).unsqueeze(1)).add_(p.block(kValueBias));
}

void plain_mix_back(const Mixer& mixer, const at::Tensor& q, const at::Tensor& d_output, MixerPass& pass,
                    FlatParameters& gradients) {
  const MixerShape& shape = mixer.shape();
  const Parts parts = parts_of(shape, pass.hyper);
  const at::Tensor d_second = d_output * pass.hidden * parts.second.sign();
  // elu: its slope is 1 above 0 and e^x = elu(x) + 1 below.
  const at::Tensor d_before = d_output * parts.second.abs() * (pass.hidden.clamp_max(0) + 1);
  const at::Tensor weights = parts.weights.abs().view({q.size(0), shape.agents, shape.embed});
  at::Tensor d_q = pass.d_q.unsqueeze(2);
  at::bmm_out(d_q, weights, d_before.unsqueeze(2));
  at::Tensor(gradients.block(kValueWeight)).copy_(at::mv(parts.value.relu().t(), d_output.squeeze(1)));
  at::Tensor(gradients.block(kValueBias)).copy_(d_output.sum(0));
  const at::Tensor d_weights = (q.unsqueeze(2) * d_before.unsqueeze(1)).view_as(parts.weights);
  at::Tensor(parts.weights).copy_(d_weights * parts.weights.sign());
  at::Tensor(parts.bias).copy_(d_before);
  at::Tensor(parts.second).copy_(d_second);
  at::Tensor(parts.value).copy_(d_output * mixer.parameters().block(kValueWeight) * parts.value.gt(0));
}

// The mixing network in main memory, row by row. `hyper` is the row of all hypernetworks.
float mix_row(const MixerShape& s, const float* hyper, const float* q, const float* u,
              float* __restrict hidden) {
  const std::int64_t e = s.embed;
  const float *bias = hyper + s.agents * e, *second = bias + e, *value = second + e;
  for (std::int64_t j = 0; j < e; ++j) hidden[j] = bias[j];
  for (std::int64_t i = 0; i < s.agents; ++i) {
    for (std::int64_t j = 0; j < e; ++j) hidden[j] += q[i] * std::abs(hyper[i * e + j]);
  }
  for (std::int64_t j = 0; j < e; ++j) hidden[j] = elu_of(hidden[j]);
  float sum = 0.0F;
  for (std::int64_t j = 0; j < e; ++j)
    sum += hidden[j] * std::abs(second[j]) + std::max(value[j], 0.0F) * u[j];
  return sum;
}

float sign_of(float x) { return static_cast<float>(x > 0.0F) - static_cast<float>(x < 0.0F); }

// `hyper` and `hidden` become their gradients, hidden's before elu; u's is added to d_u.
void mix_row_back(const MixerShape& s, float d, const float* q, const float* u, float* __restrict hyper,
                  float* __restrict hidden, float* __restrict d_q, float* __restrict d_u) {
  const std::int64_t e = s.embed;
  float *bias = hyper + s.agents * e, *second = bias + e, *value = second + e;
  for (std::int64_t j = 0; j < e; ++j) {
    d_u[j] += d * std::max(value[j], 0.0F);
    value[j] = value[j] > 0.0F ? d * u[j] : 0.0F;
    const float weight = second[j], out = hidden[j];
    second[j] = d * out * sign_of(weight);
    // elu: its slope is 1 above 0 and e^x = elu(x) + 1 below.
    hidden[j] = bias[j] = d * std::abs(weight) * (std::min(out, 0.0F) + 1.0F);
  }
  for (std::int64_t i = 0; i < s.agents; ++i) {
    float sum = 0.0F;
    for (std::int64_t j = 0; j < e; ++j) {
      float& weight = hyper[i * e + j];
      sum += std::abs(weight) * hidden[j];
      weight = q[i] * hidden[j] * sign_of(weight);
    }
    d_q[i] = sum;
  }
}

void mix(const Mixer& mixer, const at::Tensor& q, MixerPass& pass) {
  const MixerShape& s = mixer.shape();
  const float *hyper = floats(pass.hyper), *values = floats(q),
              *u = floats(mixer.parameters().block(kValueWeight)),
              c = *floats(mixer.parameters().block(kValueBias));
  for (std::int64_t r = 0; r < q.size(0); ++r) {
    floats(pass.output)[r] = c + mix_row(s, hyper + r * pass.hyper.size(1), values + r * s.agents, u,
                                         floats(pass.hidden) + r * s.embed);
  }
}

void mix_back(const Mixer& mixer, const at::Tensor& q, const at::Tensor& d_output, MixerPass& pass,
              FlatParameters& gradients) {
  const MixerShape& s = mixer.shape();
  const float *u = floats(mixer.parameters().block(kValueWeight)), *d = floats(d_output);
  at::Tensor(gradients.block(kValueWeight)).zero_();
  float sum = 0.0F;
  for (std::int64_t r = 0; r < q.size(0); ++r) {
    sum += d[r];
    mix_row_back(s, d[r], floats(q) + r * s.agents, u, floats(pass.hyper) + r * pass.hyper.size(1),
                 floats(pass.hidden) + r * s.embed, floats(pass.d_q) + r * s.agents,
                 floats(gradients.block(kValueWeight)));
  }
  *floats(gradients.block(kValueBias)) = sum;
}

}  // namespace

Mixer::Mixer(MixerShape shape, at::Device device, bool by_library)
    : Net(shape, {{shape.state, (shape.agents + 3) * shape.embed}, {shape.embed, 0}, {1, 0}}, device,
          by_library) {}

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
  sparse_product(mixer.by_library(), pass.hyper, state, mixer.parameters().block(kHyper));
  mixer.by_library() ? plain_mix(mixer, q, pass) : mix(mixer, q, pass);
}

void backward(const Mixer& mixer, const at::Tensor& state, const at::Tensor& q, const at::Tensor& d_output,
              MixerPass& pass, FlatParameters& gradients) {
  fit(pass.d_q, q.sizes(), q);
  (mixer.by_library() ? plain_mix_back : mix_back)(mixer, q, d_output, pass, gradients);
  sparse_product(mixer.by_library(), gradients.block(kHyper), state.t(), pass.hyper);
}

}  // namespace snake_ddp::nets
