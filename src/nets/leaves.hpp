// Flat parameters under automatic differentiation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "nets/flat_parameters.hpp"

namespace snake_ddp::nets {

/// A network's parameters as its functions take them: by block, either plain views or leaves.
using Weights = std::vector<at::Tensor>;

/// A block with its name in files, and how it starts: uniform in +-1/sqrt(fan_in), or, where fan_in is 0, as `start`.
struct NamedBlock {
  std::string name;
  Block block;
  std::int64_t fan_in = 0;
  float start = 0;
};

std::vector<Block> blocks_of(const std::vector<NamedBlock>& named);

/// Draws the blocks of `parameters`; depends only on `seed`.
void init_blocks(const std::vector<NamedBlock>& named, FlatParameters& parameters, std::uint64_t seed);

NamedTensors views_of(const std::vector<NamedBlock>& named, const FlatParameters& parameters);

/// The blocks as leaves: a backward pass adds to the blocks of `gradients`, which has the same layout and must be zero
/// before it. Owner: both.
Weights leaves_over(const FlatParameters& parameters, const FlatParameters& gradients);

/// The numbers of a shape in a file.
/// Throws  FileError that starts with `what` unless there are `count` numbers, each from 1 to a million.
std::vector<std::int64_t> shape_numbers(const at::Tensor& tensor, std::int64_t count,
                                        const std::string& what);

}  // namespace snake_ddp::nets
