#include "snake_ddp/nets/dense.hpp"

#include <ATen/ATen.h>

#include "dense_blocks.hpp"
#include "fit.hpp"
#include "last_layer.hpp"
#include "snake_ddp/base/check.hpp"
#include "snake_ddp/kernels/layer_norm.hpp"
#include "snake_ddp/nets/precision.hpp"

namespace snake_ddp::nets {
namespace {

std::vector<Block> blocks_of(const DenseShape& s) {
  std::vector<Block> blocks = {
      {s.in + 1, s.hidden}, {s.hidden, s.hidden}, {s.hidden, 0}, {s.out, s.hidden}, {s.out, 0}};
  if (s.layer_norm) {
    blocks.push_back({s.hidden, 0});
    blocks.push_back({s.hidden, 0});
  }
  return blocks;
}

// d_output -> d_logits -> gradient at the hidden layer's output, masked by the ReLU, and through the layer norm. The
// parameter gradients on the way are written if requested.
at::Tensor gradient_before_hidden(const DenseNet& net, const at::Tensor& d_output, Pass& pass,
                                  FoldedGradient* gradients) {
  const FlatParameters& p = net.parameters();
  at::Tensor d_logits = d_output;
  if (net.shape().head == Head::kSoftmax) {
    fit(pass.d_logits, d_output.sizes(), d_output);
    at::_softmax_backward_data_out(pass.d_logits, d_output, pass.output, 1, at::kFloat);
    d_logits = pass.d_logits;
  } else if (net.shape().head == Head::kTanh) {
    fit(pass.d_logits, d_output.sizes(), d_output);
    at::tanh_backward_out(pass.d_logits, d_output, pass.output);
    d_logits = pass.d_logits;
  }
  fit(pass.d_hidden, pass.hidden.sizes(), pass.hidden);
  if (gradients != nullptr) {
    product_out(gradients->last_weight, d_logits.t(), pass.hidden);
    at::sum_out(gradients->last_bias, d_logits, {0});
  }
  product_out(pass.d_hidden, d_logits, p.block(kPost2Weight));
  at::threshold_backward_out(pass.d_hidden, pass.d_hidden, pass.hidden, 0);
  if (!net.shape().layer_norm) return pass.d_hidden;
  auto [d_before, d_scale, d_shift] = at::native_layer_norm_backward(
      pass.d_hidden, pass.before_norm, {net.shape().hidden}, pass.mean, pass.inverse_deviation,
      p.block(kNormWeight), p.block(kNormBias), {true, gradients != nullptr, gradients != nullptr});
  if (gradients != nullptr) {
    gradients->norm.select(0, 0).copy_(d_scale);
    gradients->norm.select(0, 1).copy_(d_shift);
  }
  return d_before;
}

NamedTensors map_first_layer(const NamedTensors& from, const at::Tensor& shift, const at::Tensor& scale,
                             bool fold) {
  NamedTensors to;
  for (const auto& [name, tensor] : from) to.emplace_back(name, tensor.detach().clone());
  const at::Tensor *weight = find(to, "prev_dense.0.weight"), *bias = find(to, "prev_dense.0.bias");
  SD_CHECK(weight != nullptr && bias != nullptr, "a network without prev_dense.0");
  const std::int64_t n = scale.size(0);
  const at::Tensor columns = weight->narrow(1, 0, n);
  // In double: the bias is a sum over all columns.
  const at::Tensor scale64 = scale.to(at::kDouble);
  const at::Tensor shift64 = shift.to(at::kDouble);
  const at::Tensor raw = fold ? columns.to(at::kDouble) * scale64 : columns.to(at::kDouble);
  const at::Tensor offset = at::mv(raw, shift64);
  bias->copy_(fold ? bias->to(at::kDouble) - offset : bias->to(at::kDouble) + offset);
  columns.copy_(fold ? raw : raw / scale64);
  return to;
}

}  // namespace

DenseNet::DenseNet(DenseShape shape, at::Device device)
    : shape_(shape), parameters_(blocks_of(shape), device) {
  if (shape_.layer_norm) at::Tensor(parameters_.block(kNormWeight)).fill_(1.0F);
}

DenseBlocks DenseNet::blocks(const FlatParameters& of) const {
  const auto block = [&](DenseBlock b) { return of.block(b).data_ptr<float>(); };
  float* const none = nullptr;
  return {block(kPrev),
          block(kPost0Weight),
          block(kPost0Bias),
          block(kPost2Weight),
          block(kPost2Bias),
          shape_.layer_norm ? block(kNormWeight) : none,
          shape_.layer_norm ? block(kNormBias) : none};
}

FoldedBlocks FoldedGradient::blocks() const {
  return {width, map.data_ptr<float>(), last_weight.data_ptr<float>(), last_bias.data_ptr<float>(),
          shape.layer_norm ? norm.data_ptr<float>() : nullptr};
}

void DenseNet::init(std::uint64_t seed) {
  draw_weights(seed, {{parameters_.block(kPrev), shape_.in},
                      {parameters_.block(kPost0Weight), shape_.hidden},
                      {parameters_.block(kPost0Bias), shape_.hidden},
                      {parameters_.block(kPost2Weight), shape_.hidden},
                      {parameters_.block(kPost2Bias), shape_.hidden}});
}

NamedTensors DenseNet::named_views(const FlatParameters& of) const {
  const at::Tensor& prev = of.block(kPrev);
  NamedTensors out = {{"prev_dense.0.weight", prev.narrow(0, 0, shape_.in).t()},
                      {"prev_dense.0.bias", prev.select(0, shape_.in)},
                      {"post_dense.0.weight", of.block(kPost0Weight).t()},
                      {"post_dense.0.bias", of.block(kPost0Bias)},
                      {"post_dense.2.weight", of.block(kPost2Weight)},
                      {"post_dense.2.bias", of.block(kPost2Bias)}};
  if (shape_.layer_norm) {
    out.emplace_back("post_norm.weight", of.block(kNormWeight));
    out.emplace_back("post_norm.bias", of.block(kNormBias));
  }
  return out;
}

Folded::Folded(const DenseShape& shape, at::Device device)
    : map(at::zeros({shape.in + 1, shape.hidden}, at::TensorOptions().dtype(at::kFloat).device(device))) {}

void Folded::refresh(const DenseNet& net) {
  const FlatParameters& p = net.parameters();
  product_out(map, p.block(kPrev), p.block(kPost0Weight));
  map.select(0, net.shape().in).add_(p.block(kPost0Bias));
}

FoldedGradient::FoldedGradient(const DenseShape& shape_, std::int64_t width_, at::Device device)
    : shape(shape_), width(width_) {
  const std::int64_t count = shape.in + 1 + shape.out + (shape.layer_norm ? 2 : 0);
  // The last layer's few biases take a whole vector of 64 bytes or more, so that all parts stay aligned.
  const std::int64_t biases = (shape.out + 15) / 16 * 16;
  flat = at::zeros({count * width + biases}, at::TensorOptions().dtype(at::kFloat).device(device));
  std::int64_t row = 0;
  const auto rows = [&](std::int64_t n) {
    row += n;
    return flat.narrow(0, (row - n) * width, n * width).view({n, width});
  };
  map = rows(shape.in + 1);
  last_weight = rows(shape.out);
  if (shape.layer_norm) norm = rows(2);
  last_bias = flat.narrow(0, row * width, shape.out);
}

void forward(const DenseNet& net, const Folded& folded, const at::Tensor& input, Pass& pass) {
  const FlatParameters& p = net.parameters();
  const DenseShape& shape = net.shape();
  const std::int64_t rows = input.size(0);
  fit(pass.output, {rows, shape.out}, input);
  if (shape.layer_norm) {
    fit(pass.before_norm, {rows, shape.hidden}, input);
    product_out(pass.before_norm, input, folded.map);
    std::tie(pass.hidden, pass.mean, pass.inverse_deviation) = at::native_layer_norm(
        pass.before_norm, {shape.hidden}, p.block(kNormWeight), p.block(kNormBias), kernels::kNormEpsilon);
  } else {
    fit(pass.hidden, {rows, shape.hidden}, input);
    product_out(pass.hidden, input, folded.map);
  }
  // A softmax cannot be done in place; the backward pass overwrites this scratch.
  if (shape.head == Head::kSoftmax) fit(pass.d_logits, pass.output.sizes(), input);
  at::Tensor& logits = shape.head == Head::kSoftmax ? pass.d_logits : pass.output;
  pass.hidden.relu_();
  last_layer_out(logits, p.block(kPost2Bias), pass.hidden, p.block(kPost2Weight));
  if (shape.head == Head::kSoftmax) {
    at::_softmax_out(pass.output, logits, 1, false);
  } else if (shape.head == Head::kTanh) {
    pass.output.tanh_();
  }
}

void backward_parameters(const DenseNet& net, const at::Tensor& input, const at::Tensor& d_output, Pass& pass,
                         FoldedGradient& gradient) {
  SD_CHECK(gradient.width == net.shape().hidden, "the library's rows have no padding");
  const at::Tensor d_before = gradient_before_hidden(net, d_output, pass, &gradient);
  product_out(gradient.map, input.t(), d_before);
}

void unfold(const DenseNet& net, const FoldedGradient& folded, FlatParameters& gradient) {
  const FlatParameters& p = net.parameters();
  // With M [in + 1, hidden] the map's gradient and both weights stored transposed:
  // dW1^T = W0 * M with the constant row carrying the biases, dW0^T = M * W1.
  at::Tensor d_post0 = gradient.block(kPost0Weight), d_prev = gradient.block(kPrev);
  product_out(d_post0, p.block(kPrev).t(), folded.map);
  product_out(d_prev, folded.map, p.block(kPost0Weight).t());
  at::Tensor(gradient.block(kPost0Bias)).copy_(folded.map.select(0, net.shape().in));
  at::Tensor(gradient.block(kPost2Weight)).copy_(folded.last_weight);
  at::Tensor(gradient.block(kPost2Bias)).copy_(folded.last_bias);
  if (net.shape().layer_norm) {
    at::Tensor(gradient.block(kNormWeight)).copy_(folded.norm.select(0, 0));
    at::Tensor(gradient.block(kNormBias)).copy_(folded.norm.select(0, 1));
  }
}

void backward_input(const DenseNet& net, const Folded& folded, const at::Tensor& d_output, Pass& pass,
                    std::int64_t first, std::int64_t count, at::Tensor& d_columns) {
  const at::Tensor d_before = gradient_before_hidden(net, d_output, pass, nullptr);
  fit(d_columns, {d_output.size(0), count}, d_output);
  product_out(d_columns, d_before, folded.map.narrow(0, first, count).t());
}

void forward_moves(const DenseNet& net, const Folded& folded, const at::Tensor& observation,
                   std::int64_t moves, Pass& pass, at::Tensor& values) {
  const FlatParameters& p = net.parameters();
  const DenseShape& shape = net.shape();
  const std::int64_t rows = observation.size(0), features = shape.in - moves;
  SD_CHECK(observation.size(1) == features + 1 && shape.out == 1,
           "an input of features and moves, one value");
  // The constant's row follows the features' here, without the actions' rows between.
  const at::Tensor state_map =
      at::cat({folded.map.narrow(0, 0, features), folded.map.narrow(0, shape.in, 1)});
  fit(pass.d_hidden, {rows, shape.hidden}, observation);
  product_out(pass.d_hidden, observation, state_map);
  at::Tensor& before = shape.layer_norm ? pass.before_norm : pass.hidden;
  fit(before, {rows, shape.hidden}, observation);
  fit(pass.output, {rows, 1}, observation);
  fit(values, {rows, moves}, observation);
  for (std::int64_t move = 0; move < moves; ++move) {
    at::add_out(before, pass.d_hidden, folded.map[features + move]);
    if (shape.layer_norm) {
      pass.hidden = std::get<0>(at::native_layer_norm(before, {shape.hidden}, p.block(kNormWeight),
                                                      p.block(kNormBias), kernels::kNormEpsilon));
    }
    pass.hidden.relu_();
    last_layer_out(pass.output, p.block(kPost2Bias), pass.hidden, p.block(kPost2Weight));
    values.select(1, move).copy_(pass.output.select(1, 0));
  }
}

NamedTensors fold_input_scale(const NamedTensors& scaled, const at::Tensor& shift, const at::Tensor& scale) {
  return map_first_layer(scaled, shift, scale, true);
}

NamedTensors unfold_input_scale(const NamedTensors& raw, const at::Tensor& shift, const at::Tensor& scale) {
  return map_first_layer(raw, shift, scale, false);
}

}  // namespace snake_ddp::nets
