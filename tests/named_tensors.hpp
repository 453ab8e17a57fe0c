// Tensors by name: copied, compared bit for bit, found.
#pragma once

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <string>

#include "nets/flat_parameters.hpp"

namespace named_tensors {

namespace nets = snake_ddp::nets;

inline nets::NamedTensors copy_of(const nets::NamedTensors& items) {
  nets::NamedTensors out;
  for (const auto& [name, tensor] : items) out.emplace_back(name, tensor.clone());
  return out;
}

inline void require_same(const nets::NamedTensors& a, const nets::NamedTensors& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(a[i].first);
    REQUIRE(a[i].first == b[i].first);
    REQUIRE(a[i].second.dtype() == b[i].second.dtype());
    REQUIRE(at::equal(a[i].second, b[i].second));
  }
}

inline at::Tensor find(const nets::NamedTensors& items, const std::string& name) {
  for (const auto& [its_name, tensor] : items)
    if (its_name == name) return tensor;
  FAIL("no " + name);
  return {};
}

}  // namespace named_tensors
