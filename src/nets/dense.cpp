#include "nets/dense.hpp"

#include <ATen/ATen.h>

#include "fit.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::nets {
namespace {

// The order of the parameters in memory. Both first weights are stored transposed.
enum : std::size_t {
  kPrev,         // [in + actions + 1, hidden], the last row is the bias
  kPost0Weight,  // [hidden, hidden]
  kPost0Bias,
  kPost2Weight,  // [out, hidden]
  kPost2Bias,
  kNormWeight,  // with layer norm only
  kNormBias
};

std::int64_t inputs_of(const DenseShape& s) { return s.in + s.actions; }

std::vector<Block> blocks_of(const DenseShape& s) {
  std::vector<Block> blocks = {
      {inputs_of(s) + 1, s.hidden}, {s.hidden, s.hidden}, {s.hidden, 0}, {s.out, s.hidden}, {s.out, 0}};
  if (s.layer_norm) {
    blocks.push_back({s.hidden, 0});
    blocks.push_back({s.hidden, 0});
  }
  return blocks;
}

Norm norm_of(const DenseNet& net) {
  if (!net.shape().layer_norm) return {};
  return {net.parameters().block(kNormWeight), net.parameters().block(kNormBias)};
}

// The rows of the folded map, or of its gradient, that features and action are multiplied by, and the bias.
struct Rows {
  Rows(const DenseShape& s, const at::Tensor& map)
      : features(map.narrow(0, 0, s.in)),
        action(map.narrow(0, s.in, s.actions)),
        bias(map.select(0, inputs_of(s))) {}
  at::Tensor features, action, bias;
};

at::Tensor features_of(const DenseNet& net, const at::Tensor& observation) {
  return observation.narrow(1, 0, net.shape().in);
}

// dL/d(output) -> dL/d(logits).
at::Tensor before_head(const DenseNet& net, const at::Tensor& d_output, DensePass& pass) {
  if (net.shape().head == Head::kIdentity) return d_output;
  fit(pass.logits, d_output.sizes(), d_output);
  if (net.shape().head == Head::kSoftmax) {
    at::_softmax_backward_data_out(pass.logits, d_output, pass.output, 1, at::kFloat);
  } else {
    at::tanh_backward_out(pass.logits, d_output, pass.output);
  }
  return pass.logits;
}

}  // namespace

Head head_from_name(const std::string& name) {
  if (name == "softmax") return Head::kSoftmax;
  if (name == "tanh") return Head::kTanh;
  throw core::UsageError("--output_activation " + name + ": not known; allowed: softmax, tanh");
}

DenseNet::DenseNet(const DenseShape& shape, at::Device device, const Backend* backend)
    : Net(shape, blocks_of(shape), device, backend) {
  if (shape.layer_norm) at::Tensor(parameters().block(kNormWeight)).fill_(1.0F);
}

void DenseNet::init(std::uint64_t seed) {
  draw_weights(seed, {{parameters().block(kPrev), inputs_of(shape())},
                      {parameters().block(kPost0Weight), shape().hidden},
                      {parameters().block(kPost0Bias), shape().hidden},
                      {parameters().block(kPost2Weight), shape().hidden},
                      {parameters().block(kPost2Bias), shape().hidden}});
}

NamedTensors DenseNet::named_views(const FlatParameters& of) const {
  const at::Tensor& prev = of.block(kPrev);
  const std::int64_t inputs = inputs_of(shape());
  NamedTensors out = {
      {"prev_dense.0.weight", prev.narrow(0, 0, inputs).t()}, {"prev_dense.0.bias", prev.select(0, inputs)},
      {"post_dense.0.weight", of.block(kPost0Weight).t()},    {"post_dense.0.bias", of.block(kPost0Bias)},
      {"post_dense.2.weight", of.block(kPost2Weight)},        {"post_dense.2.bias", of.block(kPost2Bias)}};
  if (shape().layer_norm) {
    out.emplace_back("post_norm.weight", of.block(kNormWeight));
    out.emplace_back("post_norm.bias", of.block(kNormBias));
  }
  return out;
}

Folded::Folded(const DenseNet& net) : map(at::zeros_like(net.parameters().block(kPrev))) {}

void Folded::refresh(const DenseNet& net) {
  const FlatParameters& p = net.parameters();
  net.backend().product(map, p.block(kPrev), p.block(kPost0Weight));
  Rows(net.shape(), map).bias.add_(p.block(kPost0Bias));
}

FoldedGradient::FoldedGradient(const DenseNet& net) {
  const DenseShape& s = net.shape();
  const std::int64_t vectors = s.layer_norm ? 2 : 0, rows = inputs_of(s) + 1 + s.out + vectors;
  flat = at::zeros({rows * s.hidden + s.out}, net.parameters().flat().options());
  const at::Tensor by_row = flat.narrow(0, 0, rows * s.hidden).view({rows, s.hidden});
  map = by_row.narrow(0, 0, inputs_of(s) + 1);
  last_weight = by_row.narrow(0, inputs_of(s) + 1, s.out);
  if (s.layer_norm) gain = by_row[rows - 2], shift = by_row[rows - 1];
  last_bias = flat.narrow(0, rows * s.hidden, s.out);
}

void forward(const DenseNet& net, const Folded& folded, const at::Tensor& observation,
             const at::Tensor& action, DensePass& pass) {
  const FlatParameters& p = net.parameters();
  const DenseShape& shape = net.shape();
  const Backend& by = net.backend();
  const std::int64_t rows = observation.size(0);
  const Rows map(shape, folded.map);
  fit(pass.hidden.z, {rows, shape.hidden}, observation);
  by.sparse_product(pass.hidden.z, features_of(net, observation), map.features);
  if (shape.actions > 0) by.product(pass.hidden.z, action, map.action, /*add=*/true);
  by.norm_relu(map.bias, norm_of(net), pass.hidden);
  fit(pass.output, {rows, shape.out}, observation);
  by.few_outputs(pass.hidden.out, p.block(kPost2Weight), p.block(kPost2Bias), pass.output);
  if (shape.head == Head::kSoftmax) by.softmax(pass.output);
  if (shape.head == Head::kTanh) pass.output.tanh_();
}

void backward_parameters(const DenseNet& net, const at::Tensor& observation, const at::Tensor& action,
                         const at::Tensor& d_output, DensePass& pass, FoldedGradient& gradient) {
  const Backend& by = net.backend();
  const at::Tensor d_logits = before_head(net, d_output, pass);
  fit(pass.d_hidden, pass.hidden.out.sizes(), pass.hidden.out);
  by.product(pass.d_hidden, d_logits, net.parameters().block(kPost2Weight));
  by.product(gradient.last_weight, d_logits.t(), pass.hidden.out, /*add=*/true);
  add_rows(d_logits, gradient.last_bias);
  const Rows d_map(net.shape(), gradient.map);
  const Norm d_norm{gradient.gain, gradient.shift};
  const at::Tensor d = by.norm_relu_back(norm_of(net), pass.hidden, pass.d_hidden, d_map.bias, d_norm);
  by.sparse_product(d_map.features, features_of(net, observation).t(), d, /*add=*/true);
  if (net.shape().actions > 0) by.product(d_map.action, action.t(), d, /*add=*/true);
}

void unfold(const DenseNet& net, const FoldedGradient& folded, FlatParameters& gradient) {
  const FlatParameters& p = net.parameters();
  // With M [inputs + 1, hidden] the map's gradient and both weights stored transposed:
  // dW1^T = W0 * M with the constant row carrying the biases, dW0^T = M * W1.
  net.backend().product(gradient.block(kPost0Weight), p.block(kPrev).t(), folded.map);
  net.backend().product(gradient.block(kPrev), folded.map, p.block(kPost0Weight).t());
  at::Tensor(gradient.block(kPost0Bias)).copy_(Rows(net.shape(), folded.map).bias);
  at::Tensor(gradient.block(kPost2Weight)).copy_(folded.last_weight);
  at::Tensor(gradient.block(kPost2Bias)).copy_(folded.last_bias);
  if (net.shape().layer_norm) {
    at::Tensor(gradient.block(kNormWeight)).copy_(folded.gain);
    at::Tensor(gradient.block(kNormBias)).copy_(folded.shift);
  }
}

void backward_action(const DenseNet& net, const Folded& folded, const at::Tensor& d_output, DensePass& pass,
                     at::Tensor& d_action) {
  const Backend& by = net.backend();
  fit(pass.d_hidden, pass.hidden.out.sizes(), pass.hidden.out);
  by.product(pass.d_hidden, before_head(net, d_output, pass), net.parameters().block(kPost2Weight));
  const at::Tensor d = by.norm_relu_back(norm_of(net), pass.hidden, pass.d_hidden, {}, {});
  fit(d_action, {d_output.size(0), net.shape().actions}, d_output);
  by.few_outputs(d, Rows(net.shape(), folded.map).action, at::zeros({net.shape().actions}, d.options()),
                 d_action);
}

void forward_moves(const DenseNet& net, const Folded& folded, const at::Tensor& observation, DensePass& pass,
                   at::Tensor& values) {
  const FlatParameters& p = net.parameters();
  const DenseShape& shape = net.shape();
  SD_CHECK(shape.out == 1,
           "forward_moves needs a network with one output, this one has " + std::to_string(shape.out));
  const std::int64_t rows = observation.size(0);
  const Rows map(shape, folded.map);
  for (at::Tensor* t : {&pass.features, &pass.moves.z}) fit(*t, {rows, shape.hidden}, observation);
  fit(pass.output, {rows, 1}, observation);
  fit(values, {rows, shape.actions}, observation);
  net.backend().sparse_product(pass.features, features_of(net, observation), map.features);
  const at::Tensor biases = map.action + map.bias;
  for (std::int64_t move = 0; move < shape.actions; ++move) {
    pass.moves.z.copy_(pass.features);
    net.backend().norm_relu(biases[move], norm_of(net), pass.moves, /*keep=*/false);
    net.backend().few_outputs(pass.moves.out, p.block(kPost2Weight), p.block(kPost2Bias), pass.output);
    values.select(1, move).copy_(pass.output.select(1, 0));
  }
}

}  // namespace snake_ddp::nets
