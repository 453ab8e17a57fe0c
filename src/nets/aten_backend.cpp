#include <ATen/ATen.h>

#include <array>
#include <tuple>

#include "fit.hpp"
#include "last_layer.hpp"
#include "mlp_layers.hpp"
#include "nets/backend.hpp"
#include "nets/gru_net.hpp"
#include "nets/mixer.hpp"
#include "nets/mlp.hpp"
#include "snake_ddp/kernels/layer_norm.hpp"

namespace snake_ddp::nets {
namespace {

// The columns of each hypernetwork in `hyper`.
struct Parts {
  at::Tensor weights, bias, second, value;  // [B, n e], [B, e], [B, e], [B, e]
};

Parts parts_of(const MixerShape& s, const at::Tensor& hyper) {
  const std::int64_t wide = s.agents * s.embed;
  return {hyper.narrow(1, 0, wide), hyper.narrow(1, wide, s.embed), hyper.narrow(1, wide + s.embed, s.embed),
          hyper.narrow(1, wide + 2 * s.embed, s.embed)};
}

// One hidden layer by ATen's operators, from the first columns of `from`.
void layer_forward(const LayerParameters& p, const at::Tensor& from, MlpPass::Layer& layer) {
  const std::int64_t in = p.weight.size(0), width = p.weight.size(1);
  at::Tensor& product = p.gain.defined() ? layer.before_norm : layer.hidden;
  fit(product, {from.size(0), width}, from);
  at::addmm_out(product, p.bias, from.narrow(1, 0, in), p.weight);
  if (p.gain.defined()) {
    std::tie(layer.hidden, layer.mean, layer.inverse_deviation) =
        at::native_layer_norm(product, {width}, p.gain, p.shift, kernels::kNormEpsilon);
  }
  layer.hidden.relu_();
}

// The sum of the rows of `d`, as a product: the library's sum takes 10 us of an H200 for 1,152 rows.
void sum_rows(const at::Tensor& d, const at::Tensor& ones, at::Tensor& sum) { at::mv_out(sum, d.t(), ones); }

// Returns dL/dz from dL/d(hidden), which is overwritten, as are the gradients of all but the weight.
at::Tensor activation_back(const LayerParameters& p, const MlpPass::Layer& layer, const at::Tensor& ones,
                           LayerParameters& gradient, at::Tensor& d_hidden) {
  at::Tensor d = at::threshold_backward_out(d_hidden, d_hidden, layer.hidden, 0);
  if (p.gain.defined()) {
    // Not into `d_hidden`: a recording writes to the tensor that it was before.
    at::Tensor d_gain, d_shift;
    std::tie(d, d_gain, d_shift) =
        at::native_layer_norm_backward(d, layer.before_norm, {p.weight.size(1)}, layer.mean,
                                       layer.inverse_deviation, p.gain, p.shift, {true, true, true});
    gradient.gain.copy_(d_gain);
    gradient.shift.copy_(d_shift);
  }
  sum_rows(d, ones, gradient.bias);
  return d;
}

class AtenBackend final : public Backend {
 public:
  bool in_main_memory() const override { return false; }
  std::int64_t at_a_time(std::int64_t rows, std::int64_t /*chunk*/) const override { return rows; }

  void product(at::Tensor out, const at::Tensor& left, const at::Tensor& right, bool add) const override {
    add ? void(out.addmm_(left, right)) : void(at::mm_out(out, left, right));
  }
  void sparse_product(at::Tensor out, const at::Tensor& left, const at::Tensor& right,
                      bool add) const override {
    product(out, left, right, add);
  }
  at::Tensor transposed(const at::Tensor& weight, at::Tensor& /*scratch*/) const override {
    return weight.t();
  }

  void norm_relu(const at::Tensor& bias, const Norm& norm, Activated& rows, bool /*keep*/) const override {
    if (!norm.gain.defined()) {
      bias_relu(rows.z, bias);
      rows.out = rows.z;
      return;
    }
    rows.z.add_(bias);
    std::tie(rows.out, rows.mean, rows.inverse_deviation) =
        at::native_layer_norm(rows.z, {rows.z.size(1)}, norm.gain, norm.shift, kernels::kNormEpsilon);
    rows.out.relu_();
  }

  at::Tensor norm_relu_back(const Norm& norm, const Activated& rows, at::Tensor d, at::Tensor d_bias,
                            const Norm& d_norm) const override {
    at::threshold_backward_out(d, d, rows.out, 0);
    if (norm.gain.defined()) {
      const bool wanted = d_norm.gain.defined();
      auto [before, d_gain, d_shift] =
          at::native_layer_norm_backward(d, rows.z, {d.size(1)}, rows.mean, rows.inverse_deviation, norm.gain,
                                         norm.shift, {true, wanted, wanted});
      if (wanted) at::Tensor(d_norm.gain).add_(d_gain), at::Tensor(d_norm.shift).add_(d_shift);
      d = before;
    }
    if (d_bias.defined()) add_rows(d, d_bias);
    return d;
  }

  void bias_relu(at::Tensor z, const at::Tensor& bias) const override { z.add_(bias).relu_(); }
  void softmax(at::Tensor logits) const override { logits.copy_(at::softmax(logits, 1)); }

  void few_outputs(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                   at::Tensor out) const override {
    last_layer_out(out, bias, hidden, weight);
  }
  void few_outputs_back(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& d_out,
                        at::Tensor d_hidden, at::Tensor d_weight, at::Tensor d_bias) const override {
    at::mm_out(d_hidden, d_out, weight);
    at::mm_out(d_weight, d_out.t(), hidden);
    at::sum_out(d_bias, d_out, {0});
  }

  void gru_step(const at::Tensor& input_bias, const at::Tensor& state_bias,
                const GruStep& step) const override {
    const at::Tensor bias = state_bias.unsqueeze(0), gates = gate_part(step.gates);
    const at::Tensor n = candidate_part(step.gates), u = step.recurrent;
    step.gates.add_(input_bias);
    gates.add_(gate_part(bias)).sigmoid_();
    u.add_(candidate_part(bias));
    const auto parts = gates.chunk(2, 1);
    n.addcmul_(parts[0], u).tanh_();
    // (1 - z) n + z h
    at::Tensor after = step.after;
    at::addcmul_out(after, n, parts[1], step.before - n).mul_(step.valid);
  }

  void gru_step_back(const GruStep& step, const at::Tensor& d_after,
                     const at::Tensor& d_before) const override {
    const auto parts = step.gates.chunk(3, 1);
    const at::Tensor r = parts[0].clone(), z = parts[1].clone(), n = parts[2].clone(),
                     d = d_after * step.valid;
    const at::Tensor d_candidate = d * (1 - z) * (1 - n.square());
    at::Tensor(parts[0]).copy_(d_candidate * step.recurrent * r * (1 - r));
    at::Tensor(parts[1]).copy_(d * (step.before - n) * z * (1 - z));
    at::Tensor(parts[2]).copy_(d_candidate);
    at::Tensor(step.recurrent).copy_(d_candidate * r);
    at::Tensor(d_before).addcmul_(d, z);
  }

  void lstm_step(const CellStep& step, const at::Tensor& h) const override {
    const auto gate = at::chunk(step.gates, 4, 1);
    for (const std::size_t k : {0, 1, 3}) at::Tensor(gate[k]).sigmoid_();
    at::Tensor(gate[2]).tanh_();
    at::Tensor c = step.c, tanh_c = step.tanh_c, out = h;
    at::mul_out(c, gate[0], gate[2]);
    if (step.c_before.defined()) c.addcmul_(gate[1], step.c_before);
    at::tanh_out(tanh_c, c);
    at::mul_out(out, gate[3], tanh_c);
  }

  void lstm_step_back(const CellStep& step, const at::Tensor& d_h, const at::Tensor& d_c,
                      bool last) const override {
    const auto gate = at::chunk(step.gates, 4, 1);
    const at::Tensor i = gate[0].clone(), f = gate[1].clone(), g = gate[2].clone(), o = gate[3].clone();
    at::Tensor d = d_h * o * (1 - step.tanh_c.square());
    if (!last) d += d_c;
    at::Tensor(gate[0]).copy_(d * g * i * (1 - i));
    if (step.c_before.defined()) {
      at::Tensor(gate[1]).copy_(d * step.c_before * f * (1 - f));
    } else {
      at::Tensor(gate[1]).zero_();
    }
    at::Tensor(gate[2]).copy_(d * i * (1 - g.square()));
    at::Tensor(gate[3]).copy_(d_h * step.tanh_c * o * (1 - o));
    at::Tensor(d_c).copy_(d * f);
  }

  void mix(const Mixer& mixer, const at::Tensor& q, MixerPass& pass) const override {
    const MixerShape& shape = mixer.shape();
    const FlatParameters& p = mixer.parameters();
    const Parts parts = parts_of(shape, pass.hyper);
    const at::Tensor weights = parts.weights.abs().view({q.size(0), shape.agents, shape.embed});
    at::elu_out(pass.hidden, at::bmm(q.unsqueeze(1), weights).squeeze(1).add_(parts.bias));
    at::sum_out(pass.output, pass.hidden * parts.second.abs(), 1, true);
    pass.output.add_(at::mv(parts.value.relu(), p.block(kValueWeight)).unsqueeze(1))
        .add_(p.block(kValueBias));
  }

  void mix_back(const Mixer& mixer, const at::Tensor& q, const at::Tensor& d_output, MixerPass& pass,
                FlatParameters& gradients) const override {
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

  MlpPlan plan(const MlpShape& /*shape*/) const override { return {}; }

  void forward(const Mlp& net, const at::Tensor& input, MlpPass& pass, bool /*keep*/) const override {
    const MlpLayers layers = layers_of(net.shape(), net.parameters());
    const at::Tensor* from = &input;
    for (std::size_t i = 0; i < kHiddenLayers; ++i) {
      layer_forward(layers[i], *from, pass.layer[i]);
      from = &pass.layer[i].hidden;
    }
    last_layer_out(pass.output, layers.back().bias, *from, layers.back().weight);
  }

  void backward(const Mlp& net, const at::Tensor& input, const at::Tensor& d_output, MlpPass& pass,
                FlatParameters& gradients) const override {
    const auto [first, second, last] = layers_of(net.shape(), net.parameters());
    auto [d_first, d_second, d_last] = layers_of(net.shape(), gradients);
    const MlpPass::Layer &low = pass.layer[0], &top = pass.layer[1];
    const std::int64_t rows = d_output.size(0), width = net.shape().hidden;
    fit(pass.d_upper, {rows, width}, d_output);
    fit(pass.d_lower, {rows, width}, d_output);
    if (!pass.ones.defined() || pass.ones.size(0) != rows) pass.ones = at::ones({rows}, d_output.options());
    at::mm_out(pass.d_upper, d_output, last.weight);
    at::mm_out(d_last.weight, d_output.t(), top.hidden);
    sum_rows(d_output, pass.ones, d_last.bias);
    const at::Tensor upper = activation_back(second, top, pass.ones, d_second, pass.d_upper);
    at::mm_out(d_second.weight, low.hidden.t(), upper);
    at::mm_out(pass.d_lower, upper, second.weight.t());
    const at::Tensor lower = activation_back(first, low, pass.ones, d_first, pass.d_lower);
    at::mm_out(d_first.weight, input.narrow(1, 0, net.shape().in).t(), lower);
  }
};

}  // namespace

const Backend& aten_backend() {
  static const AtenBackend backend;
  return backend;
}

void add_rows(const at::Tensor& rows, at::Tensor sum) {
  // As a product: the library's sum takes 10 us of an H200 for 1,152 rows.
  sum.addmv_(rows.t(), at::ones({rows.size(0)}, rows.options()));
}

}  // namespace snake_ddp::nets
