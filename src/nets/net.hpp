// What networks over flat parameters have in common.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "nets/flat_parameters.hpp"

namespace snake_ddp::nets {

/// Base of the network `Derived`, which has named_views: the names that files have, over any tensor of its layout
/// (parameters, gradients, moments).
template <class Derived, class Shape>
class Net {
 public:
  [[nodiscard]] const Shape& shape() const { return shape_; }
  /// Whether passes use ATen's operators, as they do on every device but the CPU, or our own, in main memory.
  [[nodiscard]] bool by_library() const { return by_library_; }
  [[nodiscard]] FlatParameters& parameters() { return parameters_; }
  [[nodiscard]] const FlatParameters& parameters() const { return parameters_; }
  /// named_views of the parameters. Owner: this network.
  [[nodiscard]] NamedTensors named() const {
    return static_cast<const Derived&>(*this).named_views(parameters_);
  }

 private:
  friend Derived;
  Net(Shape shape, std::vector<Block> blocks, at::Device device, bool by_library)
      : shape_(std::move(shape)),
        parameters_(std::move(blocks), device),
        by_library_(by_library || !device.is_cpu()) {}

  Shape shape_;
  FlatParameters parameters_;
  bool by_library_;
};

}  // namespace snake_ddp::nets
