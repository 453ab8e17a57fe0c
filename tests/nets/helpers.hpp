// Helpers for several tests of networks.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "nets/flat_parameters.hpp"

namespace snake_ddp::tests {

inline at::Tensor find(const nets::NamedTensors& all, const std::string& wanted) {
  for (const auto& [name, tensor] : all) {
    if (name == wanted) return tensor;
  }
  FAIL("no tensor " + wanted);
  return {};
}

/// The largest difference of two elements, relative to the largest element of `b`.
inline double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / std::max(1e-3, b.abs().max().item<double>());
}

/// Rows with a constant 1 appended.
inline at::Tensor with_one(const at::Tensor& rows) {
  return at::cat({rows, at::ones_like(rows.narrow(-1, 0, 1))}, -1);
}

}  // namespace snake_ddp::tests
