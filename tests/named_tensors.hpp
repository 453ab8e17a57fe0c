// Tensors by name, copied and compared bit for bit.
#pragma once

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstddef>

#include "snake_ddp/nets/flat_parameters.hpp"

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
    REQUIRE(at::equal(a[i].second, b[i].second));
  }
}

}  // namespace named_tensors
