#include "host_mlp.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "fit.hpp"
#include "mlp_layers.hpp"
#include "snake_ddp/kernels/bf16.hpp"
#include "snake_ddp/kernels/layer_norm.hpp"
#include "snake_ddp/kernels/products.hpp"
#include "snake_ddp/kernels/q_pass.hpp"

namespace snake_ddp::nets {
namespace {

// Rows that go through all layers together.
constexpr std::int64_t kChunk = 256;

// The backward pass in main memory, for `rows` rows from row `at` on; the gradients are added to.
void activation_back(const LayerParameters& p, std::int64_t rows, std::int64_t at, MlpPass::Layer& layer,
                     LayerParameters& gradient, float* d, kernels::Exchange exchange) {
  const std::int64_t width = p.weight.size(1);
  const float* hidden = floats(layer.hidden) + at * width;
  if (p.gain.defined()) {
    kernels::norm_relu_backward(rows, width, floats(p.gain), floats(layer.normal) + at * width,
                                floats(layer.inverse_deviation) + at, hidden, d, floats(gradient.bias),
                                floats(gradient.gain), floats(gradient.shift), exchange);
  } else {
    kernels::bias_relu_backward(rows, width, hidden, d, floats(gradient.bias), exchange);
  }
}

// Adds the product of inputs and gradients in bfloat16, summed over rows. Shapes  from [rows, in], `from_row` apart; d [rows, width],
// `d_row` apart.
void weight_gradient_bf16(const Mlp& net, std::int64_t in, std::int64_t width, std::int64_t rows,
                          const float* from, std::int64_t from_row, const float* d, std::int64_t d_row,
                          kernels::Bf16Matrix& scratch, float* gradient) {
  scratch.set(width, rows, {d, d_row, 1}, net.instructions());
  kernels::multiply_bf16(in, {from, 1, from_row}, scratch, gradient, width, /*add=*/true);
}

// The second layer's backward pass for rows from row `at` on: adds to its weights' gradient, and writes that of its inputs.
// Shapes  upper, lower [rows, width]: gradients of what the layer gives and gets.
void second_layer_back(const Mlp& net, std::int64_t rows, std::int64_t at, MlpPass& pass, float* gradient,
                       const float* upper, float* lower) {
  const std::int64_t width = net.shape().hidden, half = width / 2;
  if (net.halves() == nullptr) {
    const float* from = floats(pass.layer[0].hidden) + at * width;
    if (net.in_bf16()) {
      weight_gradient_bf16(net, width, width, rows, from, width, upper, width, pass.d_rounded, gradient);
      pass.transposed_rounded.multiply(rows, upper, lower);
    } else {
      kernels::multiply_sparse_transposed(width, width, rows, from, width, upper, gradient, /*add=*/true);
      kernels::multiply(rows, width, width, {upper, width, 1}, {floats(pass.transposed), width, 1}, lower,
                        width);
    }
    return;
  }
  for (std::int64_t part = 0; part < 2; ++part) {
    const float *from = floats(pass.sums) + at * width + part * half, *d = upper + part * half;
    float* folded = floats(pass.d_folded) + part * half * half;
    if (net.in_bf16()) {
      weight_gradient_bf16(net, half, half, rows, from, width, d, width, pass.d_rounded, folded);
    } else {
      kernels::multiply(half, half, rows, {from, 1, width}, {d, width, 1}, folded, half, /*add=*/true);
    }
  }
  if (net.in_bf16()) {
    pass.transposed_rounded.multiply(rows, upper, lower);
  } else {
    kernels::multiply_units(rows, upper, floats(pass.transposed), half, lower);
  }
}

// Adds to the gradient of the first layer's weights.
// Shapes  from [rows, features], `row` apart; d [rows, width].
void first_layer_back(const Mlp& net, std::int64_t rows, const float* from, std::int64_t row, MlpPass& pass,
                      const float* d, float* gradient) {
  const std::int64_t in = net.shape().in, width = net.shape().hidden;
  if (!net.in_bf16()) {
    kernels::multiply_sparse_transposed(in, width, rows, from, row, d, gradient, /*add=*/true);
  } else if (net.skips_zeros() && kernels::has_many_zeros(rows, in, from, row)) {
    kernels::multiply_sparse_transposed_bf16(in, width, rows, from, row, d, gradient, /*add=*/true);
  } else {
    weight_gradient_bf16(net, in, width, rows, from, row, d, width, pass.d_rounded, gradient);
  }
}

}  // namespace

void forward_by_chunks(const Mlp& net, const at::Tensor& input, MlpPass& pass, bool keep) {
  const MlpShape& shape = net.shape();
  const std::int64_t rows = input.size(0);
  const MlpLayers layers = layers_of(shape, net.parameters());
  const std::int64_t kept = keep ? rows : std::min(rows, kChunk);
  const kernels::Halves* halves = net.halves();
  kernels::QLayers all{shape.in, shape.hidden, shape.out, {}};
  for (std::size_t i = 0; i <= kHiddenLayers; ++i) {
    const LayerParameters& p = layers[i];
    all.layer[i] = {floats(p.weight), floats(p.bias)};
    if (p.gain.defined()) all.layer[i].gain = floats(p.gain), all.layer[i].shift = floats(p.shift);
  }
  for (std::size_t i = 0; i < kHiddenLayers; ++i) {
    MlpPass::Layer& layer = pass.layer[i];
    fit(layer.hidden, {kept, shape.hidden}, input);
    if (keep && shape.layer_norm) fit(layer.normal, {kept, shape.hidden}, input);
    if (shape.layer_norm) fit(layer.inverse_deviation, {kept}, input);
    if (halves == nullptr) continue;
    fit(layer.folded, {halves[i].count(), shape.hidden / 2}, input);
    kernels::fold_weight(halves[i], shape.hidden / 2, floats(layers[i].weight), floats(layer.folded));
    all.folded[i] = floats(layer.folded);
  }
  if (halves != nullptr) {
    fit(pass.sums, {kept, shape.hidden}, input);
    all.inputs = halves;
  }
  all.by_density = net.skips_zeros() && !pass.row_by_row;
  if (net.in_bf16()) {
    const auto weights = [&](std::size_t i) {
      return floats(halves != nullptr ? pass.layer[i].folded : layers[i].weight);
    };
    pass.rounded_first.set(halves, shape.in, shape.hidden, weights(0), net.instructions());
    pass.rounded_second.set(halves != nullptr, shape.hidden, weights(1), net.instructions());
    all.rounded_first = &pass.rounded_first, all.rounded_second = &pass.rounded_second;
  }
  for (std::int64_t first = 0; first < rows; first += kChunk) {
    const std::int64_t count = std::min(kChunk, rows - first), at = keep ? first : 0;
    kernels::QRows to{};
    for (std::size_t i = 0; i < kHiddenLayers; ++i) {
      const MlpPass::Layer& layer = pass.layer[i];
      to.hidden[i] = floats(layer.hidden) + at * shape.hidden;
      to.normal[i] = keep && shape.layer_norm ? floats(layer.normal) + at * shape.hidden : to.hidden[i];
      if (shape.layer_norm) to.inverse_deviation[i] = floats(layer.inverse_deviation) + at;
    }
    if (halves != nullptr) to.sums = floats(pass.sums) + at * shape.hidden;
    kernels::forward(all, count, floats(input) + first * input.stride(0), input.stride(0), to,
                     floats(pass.output) + first * shape.out);
  }
}

void backward_by_chunks(const Mlp& net, const at::Tensor& input, const at::Tensor& d_output, MlpPass& pass,
                        FlatParameters& gradients) {
  const MlpShape& shape = net.shape();
  const std::int64_t rows = d_output.size(0), width = shape.hidden;
  const auto [first, second, last] = layers_of(shape, net.parameters());
  auto [d_first, d_second, d_last] = layers_of(shape, gradients);
  MlpPass::Layer &low = pass.layer[0], &top = pass.layer[1];
  const std::int64_t chunk = std::min(rows, kChunk);
  fit(pass.d_upper, {chunk, width}, d_output);
  fit(pass.d_lower, {chunk, width}, d_output);
  const kernels::Halves* halves = net.halves();
  const bool halved = halves != nullptr;
  const std::int64_t half = width / 2;
  if (halved) {
    fit(pass.transposed, {2, half, half}, d_output);
    pass.transposed.copy_(top.folded.view({2, half, half}).transpose(1, 2));
    fit(pass.d_folded, {2, half, half}, d_output);
    pass.d_folded.zero_();
  } else {
    fit(pass.transposed, {width, width}, d_output);
    pass.transposed.copy_(second.weight.t());
  }
  if (net.in_bf16()) pass.transposed_rounded.set(halved, width, floats(pass.transposed), net.instructions());
  gradients.flat().zero_();
  float *upper = floats(pass.d_upper), *lower = floats(pass.d_lower);
  for (std::int64_t at = 0; at < rows; at += kChunk) {
    const std::int64_t count = std::min(kChunk, rows - at), row = input.stride(0);
    kernels::few_outputs_backward(count, width, shape.out, floats(top.hidden) + at * width,
                                  floats(last.weight), floats(d_output) + at * shape.out, upper,
                                  floats(d_last.weight), floats(d_last.bias));
    activation_back(second, count, at, top, d_second, upper, {.after = halved});
    second_layer_back(net, count, at, pass, floats(d_second.weight), upper, lower);
    activation_back(first, count, at, low, d_first, lower, {.before = halved});
    first_layer_back(net, count, floats(input) + at * row, row, pass, lower, floats(d_first.weight));
  }
  if (halved) kernels::unfold_gradient(half, floats(pass.d_folded), floats(d_second.weight));
}

}  // namespace snake_ddp::nets
