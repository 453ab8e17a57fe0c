#include "nets/net_mirror.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "nets/policy.hpp"
#include "snake_ddp/core/check.hpp"

namespace snake_ddp::nets {
namespace {

using Images = std::vector<core::MirrorImage>;

const Images kOne = {{0}};

}  // namespace

std::vector<MirroredBlock> mirrored_blocks(const Mlp& net, const core::Mirror& mirror) {
  const auto& [inputs, outputs] = mirror;
  const MlpShape& shape = net.shape();
  SD_CHECK(static_cast<std::int64_t>(inputs.size()) == shape.in,
           "a mirror needs an image for each input: " + std::to_string(shape.in));
  SD_CHECK(static_cast<std::int64_t>(outputs.size()) == shape.out,
           "a mirror needs an image for each output: " + std::to_string(shape.out));
  const Images hidden = kernels::mirrored_units(shape.hidden);
  const NamedTensors named = net.named();
  const std::size_t per_layer = shape.layer_norm ? 4 : 2;
  std::vector<MirroredBlock> blocks;
  for (std::size_t i = 0; i < named.size(); ++i) {
    const std::size_t layer = std::min(i / per_layer, kHiddenLayers);
    const bool weight = i == layer * per_layer;
    blocks.push_back({named[i].second, layer == kHiddenLayers ? outputs : hidden,
                      !weight      ? kOne
                      : layer == 0 ? inputs
                                   : hidden});
  }
  return blocks;
}

std::vector<MirroredBlock> mirrored_blocks(const DenseNet& net, const core::Mirror& mirror) {
  auto [inputs, outputs] = mirror;
  const DenseShape& shape = net.shape();
  SD_CHECK(static_cast<std::int64_t>(inputs.size()) == shape.in,
           "a mirror needs an image for each input: " + std::to_string(shape.in));
  if (shape.actions > 0) {
    for (const auto& [of, sign] : outputs) inputs.push_back({static_cast<int>(shape.in) + of, sign});
  }
  const Images hidden = kernels::mirrored_units(shape.hidden);
  std::vector<MirroredBlock> blocks;
  for (const auto& [name, tensor] : net.named()) {
    const bool last = name.starts_with("post_dense.2.");
    blocks.push_back({tensor,
                      !last            ? hidden
                      : shape.out == 1 ? kOne
                                       : outputs,
                      tensor.dim() == 1                   ? kOne
                      : name.starts_with("prev_dense.0.") ? inputs
                                                          : hidden});
  }
  return blocks;
}

NetMirror::NetMirror(const at::Tensor& flat, const std::vector<MirroredBlock>& blocks) {
  at::Tensor index = at::arange(flat.numel(), at::kLong), sign = at::ones({flat.numel()}),
             replaced = at::zeros({flat.numel()}, at::kBool);
  // A vector is a column.
  for (const auto& [block, rows, columns] : blocks) {
    const std::int64_t first = block.storage_offset(), row_stride = block.stride(0),
                       column_stride = block.dim() == 2 ? block.stride(1) : 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const auto offset = [&](std::size_t row, std::size_t column) {
          return first + static_cast<std::int64_t>(row) * row_stride +
                 static_cast<std::int64_t>(column) * column_stride;
        };
        const std::int64_t at = offset(r, c), image = offset(static_cast<std::size_t>(rows[r].of),
                                                             static_cast<std::size_t>(columns[c].of));
        index.data_ptr<std::int64_t>()[at] = image;
        sign.data_ptr<float>()[at] = rows[r].sign * columns[c].sign;
        replaced.data_ptr<bool>()[at] = image < at;
      }
    }
  }
  index_ = index.to(flat.device());
  sign_ = sign.to(flat.device());
  replaced_ = replaced.to(flat.device());
  const auto* images = index.const_data_ptr<std::int64_t>();
  const auto* signs = sign.const_data_ptr<float>();
  for (std::int64_t at = 0; at < flat.numel(); ++at) {
    if (images[at] <= at) continue;
    const bool goes_on = !runs_.empty() && runs_.back().at + runs_.back().count == at &&
                         runs_.back().image + runs_.back().count == images[at] &&
                         runs_.back().sign == signs[at];
    if (goes_on)
      ++runs_.back().count;
    else
      runs_.push_back({at, images[at], 1, signs[at]});
  }
}

const at::Tensor& NetMirror::image_of(const at::Tensor& flat) {
  if (!image_.defined()) image_ = at::empty_like(flat);
  at::index_select_out(image_, flat, 0, index_);
  return image_.mul_(sign_);
}

void NetMirror::average(at::Tensor& flat) {
  if (!flat.is_cpu()) {
    flat.add_(image_of(flat)).mul_(0.5);
    return;
  }
  auto* all = flat.data_ptr<float>();
  for (const Run& run : runs_) {
    float* __restrict one = all + run.at, * __restrict other = all + run.image;
    for (std::int64_t j = 0; j < run.count; ++j) {
      const float mean = 0.5F * (one[j] + run.sign * other[j]);
      one[j] = mean;
      other[j] = run.sign * mean;
    }
  }
}

void NetMirror::make_symmetric(at::Tensor& flat) {
  at::where_out(flat, replaced_, at::Tensor(image_of(flat)), flat.clone());
}

bool NetMirror::is_symmetric(const at::Tensor& flat) { return at::equal(flat, image_of(flat)); }

double NetMirror::asymmetry(const at::Tensor& flat) {
  return ((flat - image_of(flat)).abs().max() / flat.abs().max()).item<double>();
}

std::vector<core::MirrorImage> symmetric_inputs(const NamedTensors& weights, const core::Mirror& mirror,
                                                const std::string& what) {
  const auto& [inputs, outputs] = mirror;
  const MlpShape shape = mlp_shape_of(weights, kQNetName, what);
  if (shape.hidden % 2 != 0 || shape.in != static_cast<std::int64_t>(inputs.size()) ||
      shape.out != static_cast<std::int64_t>(outputs.size()))
    return {};
  Mlp net(shape, at::kCPU, kQNetName);
  copy_state(weights, net.named(), what);
  if (!NetMirror(net, mirror).is_symmetric(net.parameters().flat())) return {};
  return inputs;
}

}  // namespace snake_ddp::nets
