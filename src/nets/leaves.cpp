#include "snake_ddp/nets/leaves.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::nets {

std::vector<Block> blocks_of(const std::vector<NamedBlock>& named) {
  std::vector<Block> blocks;
  for (const NamedBlock& n : named) blocks.push_back(n.block);
  return blocks;
}

void init_blocks(const std::vector<NamedBlock>& named, FlatParameters& parameters, std::uint64_t seed) {
  const c10::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (std::size_t i = 0; i < named.size(); ++i) {
    at::Tensor block = parameters.block(i);
    if (named[i].fan_in == 0) {
      block.fill_(named[i].start);
      continue;
    }
    const double bound = 1.0 / std::sqrt(static_cast<double>(named[i].fan_in));
    at::Tensor drawn = at::empty(block.sizes(), at::kFloat);
    block.copy_(drawn.uniform_(-bound, bound, generator));
  }
}

NamedTensors views_of(const std::vector<NamedBlock>& named, const FlatParameters& parameters) {
  NamedTensors views;
  for (std::size_t i = 0; i < named.size(); ++i) views.emplace_back(named[i].name, parameters.block(i));
  return views;
}

Weights plain_weights(const std::vector<NamedBlock>& named, const FlatParameters& parameters) {
  Weights weights;
  for (std::size_t i = 0; i < named.size(); ++i) weights.push_back(parameters.block(i));
  return weights;
}

Weights leaves_over(const std::vector<NamedBlock>& named, const FlatParameters& parameters,
                    const FlatParameters& gradients) {
  Weights leaves;
  for (std::size_t i = 0; i < named.size(); ++i) {
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
  if (!fine) throw base::FileError(fmt::format("{} is not {} whole numbers", what, count));
  return numbers;
}

}  // namespace snake_ddp::nets
