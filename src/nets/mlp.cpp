#include "nets/mlp.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "fit.hpp"
#include "mlp_layers.hpp"

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

LayerParameters layer_of(const MlpShape& shape, const FlatParameters& p, std::size_t layer) {
  LayerParameters all{
      p.block(block_of(shape, layer, kWeight)), p.block(block_of(shape, layer, kBias)), {}, {}};
  if (shape.layer_norm && layer < kHiddenLayers) {
    all.gain = p.block(block_of(shape, layer, kGain));
    all.shift = p.block(block_of(shape, layer, kShift));
  }
  return all;
}

}  // namespace

Mlp::Mlp(const MlpShape& shape, at::Device device, std::string name, const Backend* backend)
    : Net(shape, blocks_of(shape), device, backend),
      name_(std::move(name)),
      plan_(this->backend().plan(shape)) {
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

MlpLayers layers_of(const MlpShape& shape, const FlatParameters& p) {
  MlpLayers all;
  for (std::size_t layer = 0; layer <= kHiddenLayers; ++layer) all[layer] = layer_of(shape, p, layer);
  return all;
}

void forward(const Mlp& net, const at::Tensor& input, MlpPass& pass, bool keep) {
  fit(pass.output, {input.size(0), net.shape().out}, input);
  net.backend().forward(net, input, pass, keep);
}

void backward(const Mlp& net, const at::Tensor& input, const at::Tensor& d_output, MlpPass& pass,
              FlatParameters& gradients) {
  net.backend().backward(net, input, d_output, pass, gradients);
}

}  // namespace snake_ddp::nets
