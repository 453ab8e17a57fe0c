#include "snake_ddp/nets/mlp.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fit.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/kernels/layer_norm.hpp"
#include "snake_ddp/kernels/products.hpp"
#include "snake_ddp/nets/precision.hpp"

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

const float* floats(const at::Tensor& t) { return t.data_ptr<float>(); }
float* floats(at::Tensor& t) { return t.data_ptr<float>(); }

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

// One hidden layer from the first `from.size(1) - spare` columns of `from`.
void forward_layer(const LayerParameters& p, const at::Tensor& from, bool by_library, at::Tensor& product,
                   MlpPass::Layer& layer) {
  const std::int64_t rows = from.size(0), in = p.weight.size(0), width = p.weight.size(1);
  const bool norm = p.gain.defined();
  fit(layer.hidden, {rows, width}, from);
  if (by_library) {
    // The product has a tensor of its own: layer norm makes new ones, and a recording still writes to the old.
    if (norm) fit(product, {rows, width}, from);
    affine_out(norm ? product : layer.hidden, p.bias, from.narrow(1, 0, in), p.weight);
    if (norm) {
      at::Tensor mean;
      std::tie(layer.normal, mean, layer.inverse_deviation) =
          at::native_layer_norm(product, {width}, {}, {}, kernels::kNormEpsilon);
      at::addcmul_out(layer.hidden, p.shift, layer.normal, p.gain);
    }
    layer.hidden.relu_();
    return;
  }
  if (norm) fit(layer.normal, {rows, width}, from);
  at::Tensor& z = norm ? layer.normal : layer.hidden;
  // Most of a view is 0. An input with fewer zeros uses the dense product.
  kernels::multiply_sparse(rows, width, in, floats(from), from.stride(0), floats(p.weight), floats(z), width);
  if (norm) {
    fit(layer.inverse_deviation, {rows}, from);
    kernels::norm_relu(rows, width, floats(p.bias), floats(p.gain), floats(p.shift), floats(z),
                       floats(layer.inverse_deviation), floats(layer.hidden));
  } else {
    kernels::bias_relu(rows, width, floats(p.bias), floats(z));
  }
}

// dL/d(hidden) in `d` becomes dL/dz; the gradients of all but the weight are written.
void backward_activation(const LayerParameters& p, const MlpPass::Layer& layer, bool by_library,
                         LayerParameters& gradient, at::Tensor& d) {
  const std::int64_t rows = d.size(0), width = d.size(1);
  const bool norm = p.gain.defined();
  if (!by_library) {
    if (norm) {
      kernels::norm_relu_backward(rows, width, floats(p.gain), floats(layer.normal),
                                  floats(layer.inverse_deviation), floats(layer.hidden), floats(d),
                                  floats(gradient.bias), floats(gradient.gain), floats(gradient.shift));
    } else {
      kernels::bias_relu_backward(rows, width, floats(layer.hidden), floats(d), floats(gradient.bias));
    }
    return;
  }
  d.mul_(layer.hidden.gt(0));
  if (norm) {
    at::sum_out(gradient.shift, d, {0});
    at::sum_out(gradient.gain, d * layer.normal, {0});
    d.mul_(p.gain);
    const at::Tensor along = (d * layer.normal).mean(1, true);
    d.sub_(d.mean(1, true)).sub_(layer.normal * along).mul_(layer.inverse_deviation.view({rows, 1}));
  }
  at::sum_out(gradient.bias, d, {0});
}

// weight's gradient = from^T * d
void backward_weight(const at::Tensor& from, const at::Tensor& d, bool by_library, at::Tensor& gradient) {
  const std::int64_t in = gradient.size(0), width = gradient.size(1);
  if (!by_library) {
    kernels::multiply_sparse_transposed(in, width, d.size(0), floats(from), from.stride(0), floats(d),
                                        floats(gradient));
  } else {
    product_out(gradient, from.narrow(1, 0, in).t(), d);
  }
}

// below = d * weight^T
void backward_input(const at::Tensor& weight, const at::Tensor& d, bool by_library, at::Tensor& transposed,
                    at::Tensor& below) {
  const std::int64_t in = weight.size(0), width = weight.size(1);
  fit(below, {d.size(0), in}, d);
  if (!by_library) {
    fit(transposed, {width, in}, d);
    transposed.copy_(weight.t());
    kernels::multiply(d.size(0), in, width, {floats(d), width, 1}, {floats(transposed), in, 1}, floats(below),
                      in);
  } else {
    product_out(below, d, weight.t());
  }
}

}  // namespace

Mlp::Mlp(MlpShape shape, at::Device device, std::string name, bool by_library)
    : shape_(shape),
      parameters_(blocks_of(shape), device),
      name_(std::move(name)),
      by_library_(by_library || !device.is_cpu()) {
  for (std::size_t layer = 0; shape_.layer_norm && layer < kHiddenLayers; ++layer)
    at::Tensor(parameters_.block(block_of(shape_, layer, kGain))).fill_(1.0F);
}

void Mlp::init(std::uint64_t seed) {
  const c10::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (std::size_t layer = 0; layer <= kHiddenLayers; ++layer) {
    const LayerParameters p = layer_of(shape_, parameters_, layer);
    const double bound = 1.0 / std::sqrt(static_cast<double>(layer == 0 ? shape_.in : shape_.hidden));
    for (const at::Tensor& t : {p.weight, p.bias}) {
      at::Tensor drawn = at::empty(t.sizes(), at::kFloat);
      drawn.uniform_(-bound, bound, generator);
      at::Tensor(t).copy_(drawn);
    }
  }
}

NamedTensors Mlp::named_views(const FlatParameters& of) const {
  NamedTensors out;
  for (std::size_t layer = 0; layer <= kHiddenLayers; ++layer) {
    const LayerParameters p = layer_of(shape_, of, layer);
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
  const auto matrix = [&](std::size_t layer) {
    const std::string wanted = fmt::format("{}.{}.weight", name, layer);
    const auto found =
        std::find_if(weights.begin(), weights.end(), [&](const auto& item) { return item.first == wanted; });
    if (found == weights.end() || found->second.dim() != 2) {
      throw base::FileError(
          fmt::format("{} has no matrix \"{}\": it is a different kind of network", what, wanted));
    }
    return found->second;
  };
  const bool norm = std::any_of(weights.begin(), weights.end(),
                                [](const auto& item) { return item.first == "norm_0.weight"; });
  return {matrix(0).size(1), matrix(0).size(0), matrix(kHiddenLayers).size(0), norm};
}

void forward(const Mlp& net, const at::Tensor& input, MlpPass& pass) {
  const MlpShape& shape = net.shape();
  const std::int64_t rows = input.size(0);
  const at::Tensor* from = &input;
  for (std::size_t layer = 0; layer < kHiddenLayers; ++layer) {
    forward_layer(layer_of(shape, net.parameters(), layer), *from, net.by_library(), pass.d_upper,
                  pass.layer[layer]);
    from = &pass.layer[layer].hidden;
  }
  const LayerParameters last = layer_of(shape, net.parameters(), kHiddenLayers);
  fit(pass.output, {rows, shape.out}, input);
  if (!net.by_library()) {
    kernels::few_outputs(rows, shape.hidden, shape.out, floats(*from), floats(last.weight), floats(last.bias),
                         floats(pass.output));
  } else {
    affine_out(pass.output, last.bias, *from, last.weight.t());
  }
}

void backward(const Mlp& net, const at::Tensor& input, const at::Tensor& d_output, MlpPass& pass,
              FlatParameters& gradients) {
  const MlpShape& shape = net.shape();
  const FlatParameters& p = net.parameters();
  const std::int64_t rows = d_output.size(0);
  const LayerParameters last = layer_of(shape, p, kHiddenLayers);
  LayerParameters d_last = layer_of(shape, gradients, kHiddenLayers);
  const at::Tensor& top = pass.layer[kHiddenLayers - 1].hidden;
  fit(pass.d_upper, {rows, shape.hidden}, d_output);
  if (!net.by_library()) {
    kernels::few_outputs_backward(rows, shape.hidden, shape.out, floats(top), floats(last.weight),
                                  floats(d_output), floats(pass.d_upper), floats(d_last.weight),
                                  floats(d_last.bias));
  } else {
    product_out(pass.d_upper, d_output, last.weight);
    product_out(d_last.weight, d_output.t(), top);
    at::sum_out(d_last.bias, d_output, {0});
  }
  at::Tensor* d = &pass.d_upper;
  for (std::size_t layer = kHiddenLayers; layer-- > 0;) {
    const LayerParameters here = layer_of(shape, p, layer);
    LayerParameters d_here = layer_of(shape, gradients, layer);
    backward_activation(here, pass.layer[layer], net.by_library(), d_here, *d);
    backward_weight(layer == 0 ? input : pass.layer[layer - 1].hidden, *d, net.by_library(), d_here.weight);
    if (layer == 0) return;
    backward_input(here.weight, *d, net.by_library(), pass.transposed, pass.d_lower);
    d = &pass.d_lower;
  }
}

}  // namespace snake_ddp::nets
