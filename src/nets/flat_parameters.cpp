#include "nets/flat_parameters.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/hash.hpp"

namespace snake_ddp::nets {
namespace {

constexpr std::int64_t kAlignFloats = 16;

std::int64_t length_of(const Block& b) { return b.rows * std::max<std::int64_t>(b.columns, 1); }

}  // namespace

FlatParameters::FlatParameters(std::vector<Block> blocks, at::Device device) : blocks_(std::move(blocks)) {
  std::int64_t total = 0;
  for (const Block& b : blocks_) total += (length_of(b) + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
  flat_ = at::zeros({total}, at::TensorOptions().dtype(at::kFloat).device(device));
  std::int64_t offset = 0;
  for (const Block& b : blocks_) {
    const at::Tensor slice = flat_.narrow(0, offset, length_of(b));
    views_.push_back(b.columns == 0 ? slice : slice.view({b.rows, b.columns}));
    offset += (length_of(b) + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
  }
}

void draw_weights(std::uint64_t seed, const std::vector<std::pair<at::Tensor, std::int64_t>>& with_inputs) {
  const c10::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (const auto& [tensor, inputs] : with_inputs) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(inputs));
    at::Tensor drawn = at::empty(tensor.sizes(), at::kFloat);
    at::Tensor(tensor).copy_(drawn.uniform_(-bound, bound, generator));
  }
}

void add_under(NamedTensors& out, const std::string& prefix, const NamedTensors& items) {
  for (const auto& [name, tensor] : items) out.emplace_back(prefix + name, tensor);
}

NamedTensors under(const NamedTensors& items, const std::string& prefix) {
  NamedTensors some;
  for (const auto& [name, tensor] : items)
    if (name.starts_with(prefix)) some.emplace_back(name.substr(prefix.size()), tensor);
  return some;
}

const at::Tensor* find(const NamedTensors& items, const std::string& name) {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.first == name; });
  return found == items.end() ? nullptr : &found->second;
}

const at::Tensor& matrix_of(const NamedTensors& items, const std::string& name, const std::string& what) {
  const at::Tensor* found = find(items, name);
  if (found == nullptr || found->dim() != 2 || found->numel() == 0)
    throw core::FileError(
        fmt::format("{} has no matrix \"{}\": it is a different kind of network", what, name));
  return *found;
}

std::uint64_t add_to_hash(std::uint64_t hash, const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.to(at::kCPU).contiguous();
  const auto* word = static_cast<const std::uint32_t*>(bytes.data_ptr());
  const auto words = static_cast<std::int64_t>(bytes.nbytes() / sizeof(std::uint32_t));
  for (std::int64_t i = 0; i < words; ++i) hash = core::add_to_hash(hash, std::uint64_t{word[i]});
  return hash;
}

void copy_state(const NamedTensors& source, const NamedTensors& views, const std::string& what) {
  for (const auto& [name, view] : views) {
    const at::Tensor* found = find(source, name);
    if (found == nullptr) {
      throw core::FileError(
          fmt::format("{} has no tensor \"{}\": it belongs to another network or algorithm", what, name));
    }
    if (found->sizes() != view.sizes()) {
      throw core::FileError(fmt::format(
          "{}: \"{}\" has shape [{}], this network needs [{}]; check --obs, --hidden_size and --algo", what,
          name, fmt::join(found->sizes(), ", "), fmt::join(view.sizes(), ", ")));
    }
  }
  for (const auto& [name, tensor] : source) {
    if (find(views, name) == nullptr) {
      throw core::FileError(fmt::format(
          "{} has a tensor \"{}\" that this network lacks; check --algo and --layer_norm", what, name));
    }
  }
  const c10::NoGradGuard no_grad;
  for (const auto& [name, view] : views) at::Tensor(view).copy_(*find(source, name));
}

}  // namespace snake_ddp::nets
