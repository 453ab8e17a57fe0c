#include "nets/leaves.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::nets {

std::vector<Block> blocks_of(const std::vector<NamedBlock>& named) {
  std::vector<Block> blocks;
  for (const NamedBlock& n : named) blocks.push_back(n.block);
  return blocks;
}

void init_blocks(const std::vector<NamedBlock>& named, FlatParameters& parameters, std::uint64_t seed) {
  std::vector<std::pair<at::Tensor, std::int64_t>> parts;
  for (std::size_t i = 0; i < named.size(); ++i) {
    at::Tensor block = parameters.block(i);
    named[i].fan_in == 0 ? void(block.fill_(named[i].start))
                         : void(parts.emplace_back(block, named[i].fan_in));
  }
  draw_weights(seed, parts);
}

NamedTensors views_of(const std::vector<NamedBlock>& named, const FlatParameters& parameters) {
  NamedTensors views;
  for (std::size_t i = 0; i < named.size(); ++i) views.emplace_back(named[i].name, parameters.block(i));
  return views;
}

Weights leaves_over(const FlatParameters& parameters, const FlatParameters& gradients) {
  Weights leaves;
  for (std::size_t i = 0; i < parameters.blocks().size(); ++i) {
    at::Tensor leaf = parameters.block(i).detach();
    leaf.set_requires_grad(true);
    leaf.mutable_grad() = gradients.block(i);
    leaves.push_back(std::move(leaf));
  }
  return leaves;
}

std::vector<std::int64_t> shape_numbers(const at::Tensor& tensor, std::int64_t count,
                                        const std::string& what) {
  constexpr std::int64_t kMost = 1'000'000;
  std::vector<std::int64_t> numbers;
  if (tensor.scalar_type() == at::kLong && tensor.dim() == 1) {
    const at::Tensor here = tensor.to(at::kCPU).contiguous();
    numbers.assign(here.data_ptr<std::int64_t>(), here.data_ptr<std::int64_t>() + here.numel());
  }
  const bool fine =
      static_cast<std::int64_t>(numbers.size()) == count &&
      std::all_of(numbers.begin(), numbers.end(), [](std::int64_t n) { return n >= 0 && n <= kMost; });
  if (!fine) throw core::FileError(fmt::format("{} is not {}", what, core::counted(count, "whole number")));
  return numbers;
}

}  // namespace snake_ddp::nets
