#include "nets/mlp.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "fit.hpp"
#include "last_layer.hpp"
#include "nets/precision.hpp"
#include "snake_ddp/kernels/bf16.hpp"
#include "snake_ddp/kernels/layer_norm.hpp"
#include "snake_ddp/kernels/products.hpp"
#include "snake_ddp/kernels/q_pass.hpp"

namespace snake_ddp::nets {
namespace {

// Blocks of a hidden layer, then those of the last one. Weights of hidden layers are stored as [in, out], the last
// one as [out, in]: so the products read adjacent columns.
enum : std::size_t { kWeight, kBias, kGain, kShift };

std::size_t block_of(const MlpShape& s, std::size_t layer, std::size_t which) {
  return layer * (s.layer_norm ? 4 : 2) + which;
}

std::vector<Block> blocks_of(const MlpShape& s) {
  std::vector<Block> blocks;
  for (std::size_t layer = 0; layer < kHiddenLayers; ++layer) {
    blocks.push_back({layer == 0 ? s.in : s.hidden, s.hidden});
    for (int vectors = s.layer_norm ? 3 : 1; vectors > 0; --vectors) blocks.push_back({s.hidden, 0});
  }
  blocks.push_back({s.out, s.hidden});
  blocks.push_back({s.out, 0});
  return blocks;
}

struct LayerParameters {
  at::Tensor weight, bias, gain, shift;
};

LayerParameters layer_of(const MlpShape& shape, const FlatParameters& p, std::size_t layer) {
  LayerParameters all{
      p.block(block_of(shape, layer, kWeight)), p.block(block_of(shape, layer, kBias)), {}, {}};
  if (shape.layer_norm && layer < kHiddenLayers) {
    all.gain = p.block(block_of(shape, layer, kGain));
    all.shift = p.block(block_of(shape, layer, kShift));
  }
  return all;
}

// Rows that go through all layers together: each layer finds in cache what the one below has written.
constexpr std::int64_t kChunk = 256;

// One hidden layer by ATen's operators, from the first columns of `from`.
void layer_by_library(const LayerParameters& p, const at::Tensor& from, MlpPass::Layer& layer) {
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
at::Tensor activation_back_by_library(const LayerParameters& p, const MlpPass::Layer& layer,
                                      const at::Tensor& ones, LayerParameters& gradient,
                                      at::Tensor& d_hidden) {
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

}  // namespace

Mlp::Mlp(const MlpShape& shape, at::Device device, std::string name, bool by_library)
    : Net(shape, blocks_of(shape), device, by_library),
      name_(std::move(name)),
      in_bf16_(!this->by_library() && product_precision() == Precision::kBf16),
      instructions_(bf16_instructions()) {
  const bool halved = !this->by_library() && (!in_bf16_ || kernels::halves_pay(instructions_));
  if (halved && !shape.mirrored_inputs.empty())
    halves_ = {kernels::halves_of(shape.mirrored_inputs),
               kernels::halves_of(kernels::mirrored_units(shape.hidden))};
  for (std::size_t layer = 0; shape.layer_norm && layer < kHiddenLayers; ++layer)
    at::Tensor(parameters().block(block_of(shape, layer, kGain))).fill_(1.0F);
}

void Mlp::init(std::uint64_t seed) {
  std::vector<std::pair<at::Tensor, std::int64_t>> parts;
  for (std::size_t layer = 0; layer <= kHiddenLayers; ++layer) {
    const LayerParameters p = layer_of(shape(), parameters(), layer);
    for (const at::Tensor& t : {p.weight, p.bias})
      parts.emplace_back(t, layer == 0 ? shape().in : shape().hidden);
  }
  draw_weights(seed, parts);
}

NamedTensors Mlp::named_views(const FlatParameters& of) const {
  NamedTensors out;
  for (std::size_t layer = 0; layer <= kHiddenLayers; ++layer) {
    const LayerParameters p = layer_of(shape(), of, layer);
    out.emplace_back(fmt::format("{}.{}.weight", name_, layer),
                     layer < kHiddenLayers ? p.weight.t() : p.weight);
    out.emplace_back(fmt::format("{}.{}.bias", name_, layer), p.bias);
    if (!p.gain.defined()) continue;
    out.emplace_back(fmt::format("norm_{}.weight", layer), p.gain);
    out.emplace_back(fmt::format("norm_{}.bias", layer), p.shift);
  }
  return out;
}

MlpShape mlp_shape_of(const NamedTensors& weights, const std::string& name, const std::string& what) {
  const at::Tensor& first = matrix_of(weights, name + ".0.weight", what);
  const at::Tensor& last = matrix_of(weights, fmt::format("{}.{}.weight", name, kHiddenLayers), what);
  return {first.size(1), first.size(0), last.size(0), find(weights, "norm_0.weight") != nullptr};
}

void forward(const Mlp& net, const at::Tensor& input, MlpPass& pass, bool keep) {
  const MlpShape& shape = net.shape();
  const std::int64_t rows = input.size(0);
  std::array<LayerParameters, kHiddenLayers> layers;
  for (std::size_t i = 0; i < kHiddenLayers; ++i) layers[i] = layer_of(shape, net.parameters(), i);
  const LayerParameters last = layer_of(shape, net.parameters(), kHiddenLayers);
  fit(pass.output, {rows, shape.out}, input);
  if (net.by_library()) {
    const at::Tensor* from = &input;
    for (std::size_t i = 0; i < kHiddenLayers; ++i) {
      layer_by_library(layers[i], *from, pass.layer[i]);
      from = &pass.layer[i].hidden;
    }
    last_layer_out(pass.output, last.bias, *from, last.weight);
    return;
  }
  const std::int64_t kept = keep ? rows : std::min(rows, kChunk);
  const kernels::Halves* halves = net.halves();
  kernels::QLayers all{shape.in, shape.hidden, shape.out, {}};
  for (std::size_t i = 0; i <= kHiddenLayers; ++i) {
    const LayerParameters& p = i < kHiddenLayers ? layers[i] : last;
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

void backward(const Mlp& net, const at::Tensor& input, const at::Tensor& d_output, MlpPass& pass,
              FlatParameters& gradients) {
  const MlpShape& shape = net.shape();
  const std::int64_t rows = d_output.size(0), width = shape.hidden;
  const LayerParameters first = layer_of(shape, net.parameters(), 0),
                        second = layer_of(shape, net.parameters(), 1),
                        last = layer_of(shape, net.parameters(), kHiddenLayers);
  LayerParameters d_first = layer_of(shape, gradients, 0), d_second = layer_of(shape, gradients, 1),
                  d_last = layer_of(shape, gradients, kHiddenLayers);
  MlpPass::Layer &low = pass.layer[0], &top = pass.layer[1];
  const std::int64_t chunk = net.by_library() ? rows : std::min(rows, kChunk);
  fit(pass.d_upper, {chunk, width}, d_output);
  fit(pass.d_lower, {chunk, width}, d_output);
  if (net.by_library()) {
    if (!pass.ones.defined() || pass.ones.size(0) != rows) pass.ones = at::ones({rows}, d_output.options());
    at::mm_out(pass.d_upper, d_output, last.weight);
    at::mm_out(d_last.weight, d_output.t(), top.hidden);
    sum_rows(d_output, pass.ones, d_last.bias);
    const at::Tensor upper = activation_back_by_library(second, top, pass.ones, d_second, pass.d_upper);
    at::mm_out(d_second.weight, low.hidden.t(), upper);
    at::mm_out(pass.d_lower, upper, second.weight.t());
    const at::Tensor lower = activation_back_by_library(first, low, pass.ones, d_first, pass.d_lower);
    at::mm_out(d_first.weight, input.narrow(1, 0, shape.in).t(), lower);
    return;
  }
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
    if (halved) {
      for (std::int64_t part = 0; part < 2; ++part) {
        const float *from = floats(pass.sums) + at * width + part * half, *d = upper + part * half;
        float* gradient = floats(pass.d_folded) + part * half * half;
        if (net.in_bf16()) {
          weight_gradient_bf16(net, half, half, count, from, width, d, width, pass.d_rounded, gradient);
        } else {
          kernels::multiply(half, half, count, {from, 1, width}, {d, width, 1}, gradient, half, /*add=*/true);
        }
      }
      if (net.in_bf16()) {
        pass.transposed_rounded.multiply(count, upper, lower);
      } else {
        kernels::multiply_units(count, upper, floats(pass.transposed), half, lower);
      }
    } else {
      const float* from = floats(low.hidden) + at * width;
      if (net.in_bf16()) {
        weight_gradient_bf16(net, width, width, count, from, width, upper, width, pass.d_rounded,
                             floats(d_second.weight));
        pass.transposed_rounded.multiply(count, upper, lower);
      } else {
        kernels::multiply_sparse_transposed(width, width, count, from, width, upper, floats(d_second.weight),
                                            /*add=*/true);
        kernels::multiply(count, width, width, {upper, width, 1}, {floats(pass.transposed), width, 1}, lower,
                          width);
      }
    }
    activation_back(first, count, at, low, d_first, lower, {.before = halved});
    const float* from = floats(input) + at * row;
    if (!net.in_bf16()) {
      kernels::multiply_sparse_transposed(shape.in, width, count, from, row, lower, floats(d_first.weight),
                                          /*add=*/true);
    } else if (net.skips_zeros() && kernels::has_many_zeros(count, shape.in, from, row)) {
      kernels::multiply_sparse_transposed_bf16(shape.in, width, count, from, row, lower,
                                               floats(d_first.weight), /*add=*/true);
    } else {
      weight_gradient_bf16(net, shape.in, width, count, from, row, lower, width, pass.d_rounded,
                           floats(d_first.weight));
    }
  }
  if (halved) kernels::unfold_gradient(half, floats(pass.d_folded), floats(d_second.weight));
}

}  // namespace snake_ddp::nets
